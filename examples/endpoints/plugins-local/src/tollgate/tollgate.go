// Package tollgate is a plugin of Traefik that reports the head of each answer to the gate, for traefik-dynamic.yaml.
package tollgate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Config names the endpoint of the gate.
type Config struct {
	Gate string `json:"gate,omitempty"`
}

// CreateConfig is called by Traefik.
func CreateConfig() *Config {
	return &Config{Gate: "http://127.0.0.1:9182"}
}

type middleware struct {
	next   http.Handler
	gate   string
	client *http.Client
	// One for each report on its way: without a free one it is dropped, and its attempt keeps its charge.
	free chan struct{}
}

// New is called by Traefik.
func New(_ context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
	client := &http.Client{Timeout: time.Second, Transport: transport}
	return &middleware{next: next, gate: config.Gate, client: client, free: make(chan struct{}, 1000)}, nil
}

func (m *middleware) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	receipt := request.Header.Get("X-Tollgate-Receipt")
	request.Header.Del("X-Tollgate-Receipt")
	if receipt == "" {
		m.next.ServeHTTP(answer, request)
		return
	}
	m.next.ServeHTTP(&head{ResponseWriter: answer, middleware: m, receipt: receipt}, request)
}

func (m *middleware) report(body string) {
	defer func() { <-m.free }()
	answer, err := m.client.Post(m.gate+"/outcome", "application/json", bytes.NewBufferString(body))
	if err == nil {
		answer.Body.Close()
	}
}

// head passes an answer on, and reports its head once.
type head struct {
	http.ResponseWriter
	middleware *middleware
	receipt    string
	isReported bool
}

func (h *head) WriteHeader(status int) {
	switch status {
	case 499, http.StatusBadGateway, http.StatusGatewayTimeout:
		// Traefik's own: the client has gone, or no answer came. The attempt keeps its charge, and so does one that the
		// application itself answers so.
		h.isReported = true
	}
	if status >= 200 {
		h.report(status)
	}
	h.ResponseWriter.WriteHeader(status)
	if status >= 200 && h.Header().Get("Content-Length") == "" {
		h.Flush()
	}
}

func (h *head) Write(body []byte) (int, error) {
	h.report(http.StatusOK)
	count, err := h.ResponseWriter.Write(body)
	h.Flush()
	return count, err
}

// Flush sends what is written so far. Traefik runs this by Yaegi, which hides Flush from it: an answer that may be a stream is
// flushed above at each step.
func (h *head) Flush() {
	if flusher, ok := h.ResponseWriter.(http.Flusher); ok {
		h.report(http.StatusOK)
		flusher.Flush()
	}
}

// Hijack hands over the connection, for a WebSocket. Its answer is not reported: Traefik writes the head by itself.
func (h *head) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if hijacker, ok := h.ResponseWriter.(http.Hijacker); ok {
		return hijacker.Hijack()
	}
	return nil, nil, http.ErrNotSupported
}

func (h *head) report(status int) {
	if h.isReported {
		return
	}
	h.isReported = true
	var lines []string
	for name, values := range h.Header() {
		for _, value := range values {
			lines = append(lines, "["+quoted(name)+","+quoted(value)+"]")
		}
	}
	answer := fmt.Sprintf(`{"status":%d,"headers":[%s]}`, status, strings.Join(lines, ","))
	body := fmt.Sprintf(`{"receipt":%s,"answer":%s}`, quoted(h.receipt), answer)
	select {
	case h.middleware.free <- struct{}{}:
		go h.middleware.report(body)
	default:
	}
}

// quoted writes each byte of a value as one character of JSON: not every value is UTF-8.
func quoted(value string) string {
	var text strings.Builder
	for at := 0; at < len(value); at++ {
		letter := value[at]
		if letter < 0x20 || letter >= 0x7f || letter == '"' || letter == '\\' {
			fmt.Fprintf(&text, `\u%04x`, letter)
		} else {
			text.WriteByte(letter)
		}
	}
	return `"` + text.String() + `"`
}
