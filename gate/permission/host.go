package permission

import (
	"net/netip"
	"strings"
	"unicode"
)

// ParseHost returns the one spelling under which hosts are compared: lower case,
// without a final dot, IP addresses in their shortest form and without brackets.
// Two hosts are the same only if these are equal: a name never covers names
// below it.
//
// It wants the bare host. Ports, schemes, user parts, paths, wildcards, names
// beyond ASCII (write the xn-- form), and numbers that some resolvers take for
// an IP address (0x7f.1, 2130706433) are [ErrHost].
func ParseHost(text string) (string, error) {
	host := text
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, err := netip.ParseAddr(inner); ok && err == nil && addr.Is6() && addr.Zone() == "" {
			return addr.Unmap().String(), nil
		}
		return "", &PathError{text, ErrHost}
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		return addr.Unmap().String(), nil
	}
	// ASCII first: lower-casing makes a plain k of the Kelvin sign.
	if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		return "", &PathError{text, ErrHost}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) > 253 {
		return "", &PathError{text, ErrHost}
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !validLabel(label) {
			return "", &PathError{text, ErrHost}
		}
	}
	if last := labels[len(labels)-1]; numeric(last) {
		// 127.0.0.1. with its final dot is an address after all.
		if addr, err := netip.ParseAddr(host); err == nil {
			return addr.String(), nil
		}
		return "", &PathError{text, ErrHost}
	}
	return host, nil
}

// validLabel allows the underscore, which service names use.
func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// numeric tells whether a final label makes resolvers read the whole as an IPv4
// address: all digits, or hexadecimal after 0x.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
