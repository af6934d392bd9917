package gitrepo

import (
	"bytes"
	"encoding/binary"
	"errors"
)

var errIndex = errors.New("index is not understood")

const modeGitlink = 0o160000

// gitlinks returns the paths of the submodules in an index file
// (git help gitformat-index, versions 2 to 4) of a repository whose object names
// have hash bytes.
func gitlinks(index []byte, hash int) ([]string, error) {
	if len(index) < 12 || string(index[:4]) != "DIRC" {
		return nil, errIndex
	}
	version := binary.BigEndian.Uint32(index[4:])
	count := int(binary.BigEndian.Uint32(index[8:]))
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	links, ok := readEntries(index, version, count, hash)
	if !ok {
		return nil, errIndex
	}
	return links, nil
}

// readEntries reads all entries and walks the extensions after them. It is false
// where they do not fill the file.
func readEntries(index []byte, version uint32, count, hash int) (links []string, ok bool) {
	const header, stat = 12, 40
	at := header
	var previous []byte
	for range count {
		fixed := stat + hash + 2
		if len(index)-at < fixed+1 {
			return nil, false
		}
		mode := binary.BigEndian.Uint32(index[at+24:])
		flags := binary.BigEndian.Uint16(index[at+stat+hash:])
		start := at
		at += fixed
		if flags&0x4000 != 0 {
			if version < 3 || len(index)-at < 2 {
				return nil, false
			}
			at += 2
		}
		var name []byte
		if version == 4 {
			strip, n := stripLength(index[at:])
			if n == 0 || strip > len(previous) {
				return nil, false
			}
			at += n
			end := bytes.IndexByte(index[at:], 0)
			if end < 0 {
				return nil, false
			}
			name = append(previous[:len(previous)-strip:len(previous)-strip], index[at:at+end]...)
			at += end + 1
			previous = name
		} else {
			end := bytes.IndexByte(index[at:], 0)
			if end <= 0 {
				return nil, false
			}
			name = index[at : at+end]
			if length := int(flags & 0xfff); length != 0xfff && length != end {
				return nil, false
			}
			// Entries are padded with one to eight NUL bytes.
			at = start + (at+end-start+8)/8*8
		}
		if mode == modeGitlink {
			links = append(links, string(name))
		}
	}
	return links, extensionsFill(index, at, hash)
}

// stripLength reads the variable-width number of version 4 entries, with how many
// bytes it took, or 0 where it is broken.
func stripLength(b []byte) (value, n int) {
	for n < len(b) && n < 4 {
		c := b[n]
		n++
		value |= int(c & 0x7f)
		if c&0x80 == 0 {
			return value, n
		}
		value = (value + 1) << 7
	}
	return 0, 0
}

// extensionsFill is true where the extensions after the entries end at the
// checksum. An index that is split keeps entries in another file, and one that is
// sparse leaves entries out: neither tells all submodules.
func extensionsFill(index []byte, at, hash int) bool {
	for {
		left := len(index) - at
		switch {
		case left == hash:
			return true
		case left < hash+8:
			return false
		}
		switch string(index[at : at+4]) {
		case "link", "sdir":
			return false
		}
		size := int(binary.BigEndian.Uint32(index[at+4:]))
		if size < 0 || size > left-8-hash {
			return false
		}
		at += 8 + size
	}
}
