// A reverse proxy around failsafe-go's adaptive limiter with its prioritizer: one of the lab's
// contenders, set as an operator would who knows that the origin works on `-slots` requests at once
// and serves `-rate` a second.
//
// Sources: failsafe-go.dev, "Adaptive Limiter" (queueing, prioritization, fairness), and the doc
// comments of packages adaptivelimiter and priority; net/http/httputil, ReverseProxy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/priority"
)

const (
	// Longest wait for a permit: clients leave after a second.
	waitMax = 500 * time.Millisecond
	// From the beginning of a request to the end of its body.
	requestTimeout = 10 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	origin := flag.String("origin", "127.0.0.1:8081", "address of the origin")
	slots := flag.Uint("slots", 16, "requests that the origin works on at once")
	rate := flag.Uint("rate", 400, "requests a second that the origin can serve")
	version := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *version {
		fmt.Println("failsafe-go", libraryVersion(), runtime.Version())
		return
	}
	// As every contender here.
	runtime.GOMAXPROCS(1)
	gate := newGate(*slots, *rate)
	server := &http.Server{
		Addr:              *listen,
		Handler:           gate.handler(newProxy(*origin, int(*slots))),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      2 * requestTimeout,
		IdleTimeout:       time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/failsafe-go/failsafe-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// gate lets requests through by priority.
//
// Two limiters share one prioritizer (adaptivelimiter, BuildPrioritized: "can and should be shared
// across all limiter instances that need to coordinate"): permits are given first come first served,
// so premium requests have permits of their own instead of waiting behind others.
type gate struct {
	slots           int
	premium, others adaptivelimiter.PriorityLimiter[any]

	mu sync.Mutex
	// Requests under way by client, without premium ones; clients with none are not in it.
	clients map[string]int
}

func newGate(slots, rate uint) *gate {
	// Who has used much lately gets a lower level within its priority (package priority,
	// UsageTracker: "fair execution prioritization").
	usage := priority.NewUsageTracker(10*time.Second, 10_000)
	builder := adaptivelimiter.NewPrioritizerBuilder().WithUsageTracker(usage)
	// Of the last few hundred levels rather than the last thousand: half a second of requests.
	builder.WithLevelTracker(priority.NewLevelTracker(int(max(rate/2, 50))))
	prioritizer := builder.Build()
	// Often, because at ten times the capacity a queue fills within a tenth of a second.
	prioritizer.ScheduleCalibrations(context.Background(), 10*time.Millisecond)
	limiter := func(least, most uint) adaptivelimiter.PriorityLimiter[any] {
		return adaptivelimiter.NewBuilder[any]().
			// The operator knows the capacity: the limit begins there, and goes below only if the
			// origin gets slower.
			WithLimits(least, most, most).
			WithRecentWindow(500*time.Millisecond, 10*time.Second, 50).
			// From so many times the limits in the queues, requests are refused by priority, up to
			// all of them.
			WithQueueing(1, 1.5).
			BuildPrioritized(prioritizer)
	}
	return &gate{
		slots:   int(slots),
		premium: limiter(slots, 2*slots),
		others:  limiter(max(slots/2, 1), slots),
		clients: make(map[string]int),
	}
}

// full is what the prioritizer cannot say: it bounds no queue between two calibrations once it has
// several limiters, and knows nothing of idleness.
func (g *gate) full(class priority.Priority) bool {
	switch class {
	case priority.VeryHigh:
		return false
	case priority.VeryLow:
		// The background gets what is idle: while a quarter of the permits is free.
		return 4*g.others.Inflight() >= 3*g.slots
	default:
		return g.others.Queued() >= 4*g.slots
	}
}

// enter counts a client's request, unless the client has enough under way to keep the origin busy
// alone: the usage tracker acts from one calibration to the next, and meanwhile a greedy client
// would fill the queue.
func (g *gate) enter(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if 2*g.clients[client] >= 3*g.slots {
		return false
	}
	g.clients[client]++
	return true
}

func (g *gate) leave(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[client]--; g.clients[client] <= 0 {
		delete(g.clients, client)
	}
}

// acquire waits for a permit.
func (g *gate) acquire(ctx context.Context, class priority.Priority, client string) (adaptivelimiter.Permit, error) {
	if g.full(class) {
		return nil, adaptivelimiter.ErrExceeded
	}
	limiter := g.others
	if class == priority.VeryHigh {
		limiter = g.premium
	}
	ctx = priority.ContextWithUser(class.AddTo(ctx), client)
	return limiter.AcquirePermitWithMaxWait(ctx, waitMax)
}

func class(r *http.Request) priority.Priority {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(r.Header.Get("Sec-Purpose"), "prefetch"), strings.HasPrefix(path, "/prefetch"):
		return priority.VeryLow
	case strings.HasPrefix(path, "/checkout"), strings.HasPrefix(path, "/premium"):
		return priority.VeryHigh
	default:
		return priority.Medium
	}
}

func (g *gate) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := readWhole(r); err != nil {
			http.Error(w, "request not received", http.StatusRequestTimeout)
			return
		}
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		class := class(r)
		if class != priority.VeryHigh {
			if !g.enter(client) {
				refuse(w)
				return
			}
			defer g.leave(client)
		}
		permit, err := g.acquire(r.Context(), class, client)
		if err != nil {
			refuse(w)
			return
		}
		// The transport gives the permit back when the origin has answered.
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), permitKey{}, permit)))
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "overloaded", http.StatusServiceUnavailable)
}

func newProxy(origin string, slots int) http.Handler {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: time.Second}).DialContext,
		MaxIdleConnsPerHost:   4 * slots,
		IdleConnTimeout:       4 * time.Second,
		DisableCompression:    true,
		ResponseHeaderTimeout: 10 * time.Second,
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.URL.Host = origin
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: releasing{transport},
		ErrorLog:  log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}
