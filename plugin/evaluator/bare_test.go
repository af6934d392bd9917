package evaluator_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/regent-policy/regent/plugin/pluginpb"
)

// identity is a certificate as a go-plugin client makes one for AutoMTLS.
func identity(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(text)
}

// bare is a host that knows gRPC and nothing of go-plugin, as docs/plugin-host.md
// has it. It returns the way to the program as each of the certificates.
func bare(t *testing.T, ours string, as ...tls.Certificate) []*grpc.ClientConn {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "evaluator", "good")
	cmd.Env = []string{
		"REGENT_EVALUATOR=3b7c91d2-regent-evaluator", "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_CLIENT_CERT=" + ours,
		"TMPDIR=" + os.TempDir(), "GORACE=atexit_sleep_ms=0",
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 6 || parts[0] != "1" || parts[1] != "1" || parts[2] != "unix" || parts[4] != "grpc" {
		t.Fatalf("the first line is %q", line)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = os.Remove(parts[3])
	})
	der, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(theirs)
	var conns []*grpc.ClientConn
	for _, certificate := range as {
		c := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
		if certificate.Certificate != nil {
			c.Certificates = []tls.Certificate{certificate}
		}
		conn, err := grpc.NewClient("unix:"+parts[3], grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		conns = append(conns, conn)
	}
	return conns
}

func TestHostsThatOnlyKnowGRPC(t *testing.T) {
	certificate, text := identity(t)
	conn := bare(t, text, certificate)[0]
	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("its health is %v, %v", health, err)
	}
	calls := pluginpb.NewEvaluatorClient(conn)

	// A field of a later version is passed over.
	request := &pluginpb.AskRequest{Request: []byte(`{"kind":"command","command":{"text":"deny"}}`)}
	request.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	reply, err := calls.Ask(t.Context(), request)
	if err != nil || !strings.Contains(string(reply.GetAnswer()), `"outcome":"deny"`) {
		t.Fatalf("the answer is %s, %v", reply.GetAnswer(), err)
	}

	// What is not known of a request is an error, and says where.
	for name, tt := range map[string]struct {
		message *pluginpb.AskRequest
		code    codes.Code
		fault   string
	}{
		"a member that is not known": {
			&pluginpb.AskRequest{Request: []byte(`{"kind":"command","command":{"text":"allow"},"sudo":true}`)},
			codes.InvalidArgument, `"pointer":"/request/sudo"`,
		},
		"one that is given twice": {
			&pluginpb.AskRequest{Request: []byte(`{"kind":"command","command":{"text":"deny","text":"allow"}}`)},
			codes.InvalidArgument, `"code":"malformed_request"`,
		},
		"nothing": {&pluginpb.AskRequest{}, codes.InvalidArgument, `"code":"malformed_request"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := calls.Ask(t.Context(), tt.message)
			s := status.Convert(err)
			if diff := cmp.Diff(tt.code, s.Code()); diff != "" {
				t.Errorf("the code of %v (-want +got):\n%s", err, diff)
			}
			var fault string
			for _, detail := range s.Details() {
				if f, ok := detail.(*pluginpb.Fault); ok {
					fault = string(f.GetError())
				}
			}
			if !strings.Contains(fault, tt.fault) {
				t.Errorf("the fault is %s, want %s", fault, tt.fault)
			}
		})
	}

	// A grant is read as strictly.
	answer := &pluginpb.AnswerRequest{Id: "r", Revision: 1, Option: []byte(`"allow"`), Grant: []byte(`{"scope":"turn","all":true}`)}
	if _, err := calls.Answer(t.Context(), answer); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a grant with a member that is not known is %v", err)
	}
	answer.Grant = nil
	if _, err := calls.Answer(t.Context(), answer); err != nil {
		t.Errorf("without it: %v", err)
	}
}

func TestWhoFindsTheSocketIsNotServed(t *testing.T) {
	host, text := identity(t)
	other, _ := identity(t)
	conns := bare(t, text, host, other, tls.Certificate{})
	var got []bool
	for _, conn := range conns {
		_, err := pluginpb.NewEvaluatorClient(conn).Describe(t.Context(), &pluginpb.EvaluatorDescribeRequest{})
		got = append(got, err == nil)
	}
	if diff := cmp.Diff([]bool{true, false, false}, got); diff != "" {
		t.Errorf("served: the host, another, one without a certificate (-want +got):\n%s", diff)
	}
}
