package main

import (
	"bytes"
	"io"
	"net/http"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// An upload or an answer up to this size is kept whole, so that a slow client holds no permit.
const bufferMax = 1 << 20

// readWhole reads a request's body before the request asks for a permit, if it is not too large.
func readWhole(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength > bufferMax {
		return nil
	}
	body, rest, err := head(r.Body)
	if err != nil {
		return err
	}
	if rest == nil {
		r.ContentLength = int64(len(body))
		r.TransferEncoding = nil
		rest = http.NoBody
	}
	r.Body = joined{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return nil
}

// head reads up to bufferMax bytes; rest is nil when that was all.
func head(body io.Reader) (read []byte, rest io.Reader, err error) {
	read, err = io.ReadAll(io.LimitReader(body, bufferMax))
	if err == nil && len(read) == bufferMax {
		rest = body
	}
	return read, rest, err
}

type joined struct {
	io.Reader
	io.Closer
}

type permitKey struct{}

// releasing gives the permit back once the answer is whole, or its buffer full.
type releasing struct{ http.RoundTripper }

func (t releasing) RoundTrip(r *http.Request) (*http.Response, error) {
	permit := r.Context().Value(permitKey{}).(adaptivelimiter.Permit)
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		permit.Drop()
		return nil, err
	}
	body, rest, err := head(response.Body)
	if err != nil {
		permit.Drop()
		response.Body.Close()
		return nil, err
	}
	if rest == nil {
		permit.Record()
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
		return response, nil
	}
	large := joined{io.MultiReader(bytes.NewReader(body), rest), response.Body}
	response.Body = &held{large, permit}
	return response, nil
}

// held keeps the permit until its body is closed; its time depends on the client and is not learnt.
type held struct {
	joined
	permit adaptivelimiter.Permit
}

func (h *held) Close() error {
	if h.permit != nil {
		h.permit.Drop()
		h.permit = nil
	}
	return h.joined.Close()
}
