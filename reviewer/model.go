package reviewer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
)

const (
	// MaxReply is the most that a provider of a model may send, in bytes.
	MaxReply = 1 << 20
	// maxKey is the longest key that is sent, in bytes.
	maxKey = 8 << 10
	// maxCertificates is the largest file of certificates that is read, in bytes.
	maxCertificates = 1 << 20
	// usualEvidence and usualTokens are max_evidence_bytes and max_output_tokens
	// where they are not written.
	usualEvidence, usualTokens = 32 << 10, 4096
)

// model is a language model that is asked by one HTTP request.
type model struct {
	name    string
	config  config.Reviewer
	dialect dialect
	url     *url.URL
	timeout time.Duration
}

var _ Reviewer = (*model)(nil)

// newModel checks r for what package config checks too, where a mistake would
// send a key or a request to the wrong place.
func newModel(name string, r config.Reviewer, timeout time.Duration) (*model, error) {
	d, err := dialectOf(r)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(cmp.Or(r.BaseURL, d.home))
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("base_url is no web address alone")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, errors.New("base_url is not https, and not http to this machine")
	}
	// Some write the version of the interface along with its address.
	if version, ok := strings.CutPrefix(d.path, "/v1"); ok && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1") {
		d.path = version
	}
	return &model{name: name, config: r, dialect: d, url: u.JoinPath(d.path), timeout: timeout}, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Review sends one request and reads one reply. Nothing is tried again, no
// redirect and no proxy is followed, and the model has no tools.
func (r *model) Review(ctx context.Context, q Question) approval.Verdict {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
	defer cancel()
	key, err := r.key()
	if err != nil {
		return signed(broken(err), r.name)
	}
	v := r.review(ctx, q, key)
	v.Rationale = string(withoutKey([]byte(v.Rationale), key))
	return signed(v, r.name)
}

func (r *model) review(ctx context.Context, q Question, key string) approval.Verdict {
	e, err := newEvidence(q, cmp.Or(r.config.MaxEvidenceBytes, usualEvidence))
	if err != nil {
		return broken(err)
	}
	mark := rand.Text()
	answer, err := r.ask(ctx, key, prompt{
		model:        r.config.Model,
		instructions: brief(mark, r.config.Guidance, q.Request.Kind),
		evidence:     e.fenced(mark),
		schema:       schemaOf(q.Request.Kind),
		maxTokens:    cmp.Or(r.config.MaxOutputTokens, usualTokens),
		stream:       r.config.Stream,
	})
	usage := r.usage(answer)
	if v, over := ended(ctx); over {
		v.Usage = usage
		return v
	}
	var v approval.Verdict
	if err == nil {
		if v, err = parseWhole([]byte(answer.text)); err != nil {
			err = fmt.Errorf("illegal output: %w", err)
		}
	}
	if err != nil {
		v = broken(err)
	}
	v.Usage = usage
	return partly(v, e)
}

// partly takes back an allow of what the model saw in part only, and says so to
// the person who is asked: an agent could pad what it does until nobody reads it.
func partly(v approval.Verdict, e evidence) approval.Verdict {
	if !e.cut || v.Outcome == approval.VerdictError {
		return v
	}
	said := fmt.Sprintf("the reviewer saw %d of %d bytes of evidence (max_evidence_bytes)", len(e.text), e.full)
	if v.Outcome == approval.VerdictAllow {
		v.Outcome, v.Scope = approval.VerdictUnsure, ""
		said += ", and would allow that"
	}
	if v.Rationale != "" {
		said += "; it says: " + v.Rationale
	}
	v.Rationale = said
	return v
}

// usage is what a reply took; nil where it does not tell.
func (r *model) usage(answer reply) *approval.Usage {
	const limit = 1 << 40
	t := answer.tokens
	if t == nil || t.input < 0 || t.output < 0 || t.input > limit || t.output > limit {
		return nil
	}
	return &approval.Usage{
		Model:       approval.FirstCharacters(approval.Printable(answer.model), 100),
		InputTokens: t.input, OutputTokens: t.output,
		CostUSD: (float64(t.input)*r.config.Price.InputPerMillionUSD + float64(t.output)*r.config.Price.OutputPerMillionUSD) / 1e6,
	}
}

// key is the key as it is at this moment, "" where none is configured. No error
// repeats any of it.
func (r *model) key() (string, error) {
	var key, from string
	switch {
	case r.config.APIKeyEnv != "":
		from = "the variable " + r.config.APIKeyEnv + " of api_key_env"
		key = os.Getenv(r.config.APIKeyEnv)
	case r.config.APIKeyFile != "":
		from = "api_key_file"
		text, err := readFile(r.config.APIKeyFile, maxKey)
		if err != nil {
			return "", fmt.Errorf("read api_key_file: %w", err)
		}
		key = string(text)
	default:
		return "", nil
	}
	key = strings.TrimSpace(key)
	if key == "" {
		return "", fmt.Errorf("there is no key: %s is empty or not set", from)
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return "", fmt.Errorf("%s holds a character that no key has", from)
		}
	}
	if len(key) > maxKey {
		return "", fmt.Errorf("%s is longer than %d bytes", from, maxKey)
	}
	return key, nil
}

// leastKey is the length from which on a key is a secret. What is shorter stands
// in for one, with servers that take any.
const leastKey = 8

// withoutKey is text in which the key is masked, should a server repeat it.
func withoutKey(text []byte, key string) []byte {
	if len(key) < leastKey {
		return text
	}
	for _, form := range []string{key, strings.ReplaceAll(key, "/", `\/`)} {
		text = bytes.ReplaceAll(text, []byte(form), []byte("[redacted]"))
	}
	return text
}

// readFile is the content of a regular file of limit bytes at most. It does not
// wait for a pipe that somebody put in the place of one.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing is lost if it fails
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return text, err
}

// ask sends the request.
func (r *model) ask(ctx context.Context, key string, p prompt) (reply, error) {
	body, err := json.Marshal(r.dialect.body(p))
	if err != nil {
		return reply{}, fmt.Errorf("tell the reviewer: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("ask %s: %w", r.url.Host, err)
	}
	request.GetBody = nil // nothing is sent twice
	accepted := "application/json"
	if p.stream {
		accepted = "text/event-stream"
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accepted)
	request.Header.Set("User-Agent", "regent")
	r.dialect.sign(request.Header, key)
	client, err := r.client()
	if err != nil {
		return reply{}, err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		// The address is ours to tell, and the method is no news.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return reply{}, fmt.Errorf("ask %s: %w", r.url.Host, err)
	}
	defer response.Body.Close() // what was read is whole, or else an error already
	out, err := r.answer(response, key, accepted)
	out.model = string(withoutKey([]byte(out.model), key))
	if err != nil {
		return out, fmt.Errorf("ask %s: %w", r.url.Host, err)
	}
	return out, nil
}

// client makes the one request of a review. A connection is not kept: the next
// review may be hours away, and its certificates may have changed.
func (r *model) client() (*http.Client, error) {
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.config.CAFile != "" {
		text, err := readFile(r.config.CAFile, maxCertificates)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read ca_file: %s holds no certificate in PEM", r.config.CAFile)
		}
	}
	dialer := net.Dialer{}
	if r.url.Scheme == "http" {
		// Whatever localhost resolves to, nothing leaves this machine unencrypted.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !at.Addr().Unmap().IsLoopback() {
				return fmt.Errorf("%s is not this machine, and base_url is not https", address)
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        secured,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// answer reads a response to its end, or to the end of the reply in it.
func (r *model) answer(response *http.Response, key, accepted string) (reply, error) {
	code := response.StatusCode
	status := strings.TrimSpace("status " + strconv.Itoa(code) + " " + http.StatusText(code))
	if code >= 300 && code < 400 {
		return reply{}, fmt.Errorf("%s: redirects are not followed", status)
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if code != http.StatusOK {
		// Of an error any part will do.
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return reply{}, fmt.Errorf("%s%s", status, faultOf(withoutKey(text, key)))
	}
	if kind != accepted {
		return reply{}, fmt.Errorf("the reply is of type %s, not %s", shortWord(kind), accepted)
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return reply{}, fmt.Errorf("the reply is encoded as %s, which was not asked for", shortWord(encoding))
	}
	body := &bounded{from: response.Body, left: MaxReply}
	if accepted != "application/json" {
		return r.events(body, key)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return reply{}, fmt.Errorf("read the reply: %w", err)
	}
	return r.dialect.read(withoutKey(text, key))
}

// faultOf is what an error says for itself, after a colon.
func faultOf(text []byte) string {
	var said struct {
		Error *fault `json:"error"`
	}
	if err := decode(text, &said); err == nil && said.Error != nil {
		return ": " + said.Error.err().Error()
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return ""
	}
	return ": " + excerpt(text)
}

// bounded is an error past so many bytes.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("it is longer than %d bytes", MaxReply)
	}
	return n, err
}

// events reads a stream of server-sent events up to the end of the reply. Of an
// event only its data counts: each names its type once more there.
func (r *model) events(body io.Reader, key string) (reply, error) {
	next := r.dialect.collect()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, MaxReply+1)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) > 0 {
			if piece, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				if data != nil {
					data = append(data, '\n')
				}
				data = append(data, bytes.TrimPrefix(piece, []byte(" "))...)
			}
			continue
		}
		if len(data) == 0 {
			continue
		}
		out, done, err := next(withoutKey(data, key))
		if done || err != nil {
			return out, err
		}
		data = nil
	}
	if err := lines.Err(); err != nil {
		return reply{}, fmt.Errorf("read the reply: %w", err)
	}
	out, _, err := next(nil)
	return out, err
}
