package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/regent-policy/regent/config"
)

// The headers of a webhook, as in Standard Webhooks 1.0.0: for what receivers
// verify them by there are libraries in many languages.
const (
	// HeaderID names the notification: it is the same each time that one is sent.
	HeaderID = "Webhook-Id"
	// HeaderTimestamp is when it was sent, in seconds since 1970.
	HeaderTimestamp = "Webhook-Timestamp"
	// HeaderSignature is "v1," and the HMAC-SHA256, in base64, of id, timestamp and
	// body with points between them.
	HeaderSignature = "Webhook-Signature"
)

const (
	// minSecret and maxSecret bound a secret, in bytes.
	minSecret = 16
	maxSecret = 4 << 10
	// secretPrefix is that of a secret in base64.
	secretPrefix = "whsec_"
	// maxCertificates and maxHeader bound what is read, in bytes.
	maxCertificates = 1 << 20
	maxHeader       = 64 << 10
)

// webhook sends notifications to an address. Secret and certificates are read each
// time, so that they can be replaced at any time.
type webhook struct {
	config config.Notifier
	host   string
}

func newWebhook(c config.Notifier) (*webhook, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w: its url is no address", ErrUnavailable)
	}
	return &webhook{config: c, host: u.Host}, nil
}

// Notify implements [Notifier].
func (w *webhook) Notify(ctx context.Context, n Notification) error {
	if err := w.send(ctx, n); err != nil {
		// The address may be a secret of its own, so no error has more of it.
		return fmt.Errorf("tell %s: %w", w.host, err)
	}
	return nil
}

func (w *webhook) send(ctx context.Context, n Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode a notification: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.config.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the url is no address")
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "regent")
	r.Header.Set(HeaderID, n.ID)
	r.Header.Set(HeaderTimestamp, stamp)
	if w.config.SecretEnv != "" || w.config.SecretFile != "" {
		secret, err := w.secret()
		if err != nil {
			return err // it is not sent unsigned
		}
		r.Header.Set(HeaderSignature, Sign(secret, n.ID, stamp, body))
	}
	transport, err := w.transport()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // what is told is for the one who was named
	}}
	response, err := client.Do(r)
	if err != nil {
		return unreached(ctx, err)
	}
	_ = response.Body.Close() // what it says besides is no matter, and is not waited for
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("it answers with a redirect (%d), and those are not followed", code)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return fmt.Errorf("it answers %d: %w", code, ErrTransient)
	default:
		return fmt.Errorf("it answers %d", code)
	}
}

// unreached is why no answer came, without the address.
func unreached(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), ErrTransient)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return err // another try finds the same certificate
	}
	return fmt.Errorf("%w: %w", err, ErrTransient)
}

// transport is for one try: notifications are few, and a connection that is not
// kept cannot be one to an earlier address or with earlier certificates.
func (w *webhook) transport() (*http.Transport, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if w.config.CAFile == "" {
		return t, nil
	}
	text, err := readFile(w.config.CAFile, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("read ca_file: %w", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("ca_file holds no certificate in PEM")
	}
	return t, nil
}

// secret is what is signed by. Its errors have nothing of it.
func (w *webhook) secret() ([]byte, error) {
	from, text := "secret_env "+w.config.SecretEnv, os.Getenv(w.config.SecretEnv)
	if w.config.SecretFile != "" {
		from = "secret_file"
		raw, err := readFile(w.config.SecretFile, maxSecret)
		if err != nil {
			return nil, fmt.Errorf("read secret_file: %w", err)
		}
		text = string(raw)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("%s has no secret to sign by", from)
	}
	secret := []byte(text)
	if encoded, ok := strings.CutPrefix(text, secretPrefix); ok {
		var err error
		if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("the secret of %s begins with %s and is no base64 after that", from, secretPrefix)
		}
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret of %s has fewer than %d bytes", from, minSecret)
	}
	return secret, nil
}

// readFile reads a file that has to be small.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return text, nil
}

// Sign is the value of [HeaderSignature] for a body. Receivers compute it from what
// they got, compare in constant time, and refuse timestamps that are old.
func Sign(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(id), []byte("."), []byte(timestamp), []byte("."), body} {
		mac.Write(part) // never fails
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
