package permission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/permission"
)

func TestParseHost(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a name":                           {"docs.example.com", "docs.example.com"},
		"letter case is folded":            {"Docs.Example.COM", "docs.example.com"},
		"one final dot goes":               {"docs.example.com.", "docs.example.com"},
		"two final dots are refused":       {"docs.example.com..", ""},
		"a name of one label":              {"localhost", "localhost"},
		"service labels":                   {"_dmarc.example.com", "_dmarc.example.com"},
		"punycode":                         {"xn--bcher-kva.example", "xn--bcher-kva.example"},
		"letters beyond ASCII are refused": {"bücher.example", ""},
		"the Kelvin sign is no k":          {"\u212aernel.org", ""},
		"nothing is refused":               {"", ""},
		"a dot is refused":                 {".", ""},
		"an empty label is refused":        {"docs..example.com", ""},
		"a leading dot is refused":         {".example.com", ""},
		"wildcards are refused":            {"*.example.com", ""},
		"user parts are refused":           {"example.com@evil.test", ""},
		"ports are refused":                {"example.com:443", ""},
		"schemes are refused":              {"https://example.com", ""},
		"paths are refused":                {"example.com/x", ""},
		"queries are refused":              {"example.com?x", ""},
		"escapes are refused":              {"example%2ecom", ""},
		"blanks are refused":               {" example.com", ""},
		"line ends are refused":            {"example.com\n", ""},
		"backslashes are refused":          {`example.com\@evil.test`, ""},
		"a hyphen in front is refused":     {"-x.example", ""},
		"a hyphen at the end is refused":   {"x-.example", ""},
		"long labels are refused":          {strings.Repeat("a", 64) + ".example", ""},
		"long names are refused":           {strings.Repeat("a.", 127) + "example", ""},
		"an IPv4 address":                  {"127.0.0.1", "127.0.0.1"},
		"an IPv4 address and a dot":        {"127.0.0.1.", "127.0.0.1"},
		"an IPv6 address":                  {"2001:DB8:0::1", "2001:db8::1"},
		"an IPv6 address in brackets":      {"[::1]", "::1"},
		"an IPv4 address in IPv6":          {"::ffff:127.0.0.1", "127.0.0.1"},
		"brackets around a name":           {"[example.com]", ""},
		"brackets around IPv4":             {"[127.0.0.1]", ""},
		"half a bracket":                   {"[::1", ""},
		"a bracket and a port":             {"[::1]:80", ""},
		"a zone is refused":                {"fe80::1%eth0", ""},
		"a short IPv4 form is refused":     {"127.1", ""},
		"an IPv4 number is refused":        {"2130706433", ""},
		"octal IPv4 is refused":            {"0177.0.0.1", ""},
		"hexadecimal IPv4 is refused":      {"0x7f.0.0.0x1", ""},
		"digits before a name are fine":    {"1.2.3.example", "1.2.3.example"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := permission.ParseHost(tt.text)
			if got != tt.want || errors.Is(err, permission.ErrHost) != (tt.want == "") {
				t.Fatalf("ParseHost(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
			}
			if err == nil {
				if again, err := permission.ParseHost(got); again != got || err != nil {
					t.Errorf("ParseHost(%q) = %q, %v, which is not stable", got, again, err)
				}
			}
		})
	}
}
