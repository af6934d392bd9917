package plugin_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/plugin/pluginpb"
)

// bare is a plugin without go-plugin and the SDK, as one in another language is. It
// takes small messages only, and where it is naked it asks nobody for a certificate.
func bare(naked bool) {
	try := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	try(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	try(err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	c := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12,
	}
	if naked {
		c.ClientAuth = tls.NoClientCert
	}
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "bare.sock")
	listener, err := net.Listen("unix", path)
	try(err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(c)), grpc.MaxRecvMsgSize(64<<10))
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, h)
	plugin.RegisterAll(server, info, plugin.RawReviewer(raw{f: func(_ context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
		return &pluginpb.Verdict{Id: r.GetId()}, nil
	}}))
	fmt.Printf("1|1|unix|%s|grpc|%s\n", path, base64.RawStdEncoding.EncodeToString(der))
	try(server.Serve(listener))
}
