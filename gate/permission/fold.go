package permission

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// foldKey maps the spellings that some volume takes for one name to one text:
// letter case, composed and decomposed characters, and characters that show
// nothing, which HFS+ leaves out of names. It works on names and whole paths.
func foldKey(name string) string {
	if isASCII(name) {
		return strings.ToUpper(name)
	}
	folded := strings.Map(foldRune, norm.NFD.String(name))
	return norm.NFC.String(folded)
}

func foldRune(r rune) rune {
	if unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Variation_Selector, r) {
		return -1
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// maybeSame tells whether some volume could take one and other for one name.
// Which characters beyond ASCII are alike differs from volume to volume, so any
// of them makes it possible.
func maybeSame(one, other string) bool {
	return one == other || !isASCII(one) || !isASCII(other) || strings.EqualFold(one, other)
}
