// A shop by Go's net/http, with its defaults: a goroutine for each request, no limit on requests at once. Each page
// checks the visitor's token and fills an html/template; it waits for nothing. Both pages cost the same, about 4 ms of a
// processor.
//
//	shop ADDRESS:PORT
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"os"
	"strconv"
)

var page = template.Must(template.New("page").Parse(`<!doctype html><title>{{.Title}}</title><h1>{{.Title}}</h1><ul>
{{range .Items}}<li><a href="/item/{{.Number}}">{{.Name}}</a>: {{.Price}} EUR</li>
{{end}}</ul><p>{{.Token}}</p>
`))

type item struct {
	Number, Price int
	Name          string
}

// The shop's range.
var items = func() []item {
	all := make([]item, 300)
	for number := range all {
		all[number] = item{number, number*7%90 + 9, fmt.Sprintf("Tea & biscuits no. %d", number)}
	}
	return all
}()

// What a session's token is checked against: a hash of a hash, many times.
func token(path string) string {
	sum := sha256.Sum256([]byte(path))
	for round := 0; round < 20000; round++ {
		sum = sha256.Sum256(sum[:])
	}
	return hex.EncodeToString(sum[:])
}

func serve(title string) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		var body bytes.Buffer
		values := map[string]any{"Title": title, "Items": items, "Token": token(request.URL.Path)}
		if err := page.Execute(&body, values); err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
		response.Header().Set("Content-Type", "text/html; charset=utf-8")
		response.Header().Set("Content-Length", strconv.Itoa(body.Len()))
		_, _ = body.WriteTo(response)
	}
}

func main() {
	http.HandleFunc("/checkout", serve("Your basket"))
	http.HandleFunc("/browse", serve("Our range"))
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
