package rego

import (
	"net/netip"
	"net/url"
	"strings"
)

// hostName is a host as rules compare it: lower case, without port, user part
// and final dot. It reports false for what is no host.
func hostName(s string) (string, bool) {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		s = s[at+1:]
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, _, ok = strings.Cut(inner, "]")
		if !ok {
			return "", false
		}
		s = inner
	} else if addr, err := netip.ParseAddr(s); err == nil {
		return addr.String(), true
	} else if host, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") {
		s = host
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if s == "" || strings.ContainsAny(s, "/\\ \t\r\n") {
		return "", false
	}
	return s, true
}

// urlHost is the host of an address; an address without a scheme is taken as
// command-line clients take it, host first.
func urlHost(s string) (string, bool) {
	if !strings.Contains(s, "://") {
		s = "//" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "", false
	}
	return hostName(u.Host)
}
