package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits on what an identity looks at. The loaders refuse what is past them, so
// that nothing which takes part in a decision is left out.
const (
	// maxEntries is how many files, folders and links one identity holds.
	maxEntries = 20_000
	// maxContent is how much of a file is read. Of a larger one, everything but
	// its content counts.
	maxContent = 16 << 20
	// maxLinks is how many links one path may lead through, as on Linux.
	maxLinks = 40
)

// settleAfter is longer than any file system in use takes to give a later edit
// another time (FAT: two seconds).
const settleAfter = 2500 * time.Millisecond

// Identity says what a set of files and folders looked like. Identities are
// compared with ==, and two that are equal stand for the same content. They are
// of use within one process and machine, and none is older or newer than
// another. The zero Identity stands for nothing that was ever looked at.
type Identity struct{ sum [sha256.Size]byte }

// IsZero reports whether id is the zero Identity.
func (id Identity) IsZero() bool { return id == Identity{} }

// Identify looks at paths, which may be files and folders and are made absolute,
// in any order.
//
// Of a file count the device and inode, the mode, the size, the times of the last
// change of content and attributes in nanoseconds, and the content, so that an
// edit is noticed that puts size and times back or that hides within one tick of
// the clock of the file system. Of a folder counts what is below it. Hidden names
// there are passed over, and a link there that leads to a folder is not followed,
// which is what the loader of rules does. Each link on the way to a file or to a
// named folder counts by itself.
//
// What is missing or cannot be read is part of an identity like anything else,
// and no error: it looks different once it is there.
func Identify(paths []string) Identity {
	var s surveyor
	return s.survey(absolute(paths)).id
}

// absolute returns paths absolute, clean and sorted, each once.
func absolute(paths []string) []string {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if a, err := filepath.Abs(p); err == nil {
			p = a
		}
		all = append(all, p)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Stamp is what a file's attributes looked like: device, inode, mode, size and
// times of the file, and of the link if its path is one. Stamps are compared with
// ==. A Stamp is a cheap stand-in for an Identity where one file is looked at
// before each call; it takes about two microseconds.
type Stamp struct{ entry, target attributes }

// StampOf looks at the attributes of path. That it is missing or out of reach is
// part of the Stamp.
func StampOf(path string) Stamp {
	entry := lstat(path)
	if entry.mode&fs.ModeSymlink == 0 {
		return Stamp{entry: entry}
	}
	return Stamp{entry: entry, target: stat(path)}
}

// Settled reports whether at now, which is not before the Stamp was taken, the
// file's times lie so far back that any further edit gives it another Stamp.
// Until then an edit of the same length may hide within one tick of the clock of
// the file system, and only Identify sees it. A time in the future does not
// settle, nor does anything on a system that tells no more than size and time.
func (s Stamp) Settled(now time.Time) bool {
	if !exactAttributes {
		return false
	}
	latest := max(s.entry.mtime, s.entry.ctime, s.target.mtime, s.target.ctime)
	return now.UnixNano()-latest > int64(settleAfter)
}

// attributes are what a file system tells about an entry. They are comparable.
type attributes struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // Unix time in nanoseconds
	mode         fs.FileMode
	// fault is why the rest is not known, and else 0.
	fault syscall.Errno
}

// faultOf is the number that stands for err in an identity. An error without one
// of the system's is told from none, which is all that matters here.
func faultOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return syscall.EINVAL
}

// spot is a place where a change shows: a name in a folder, or with no name all
// of the folder's names that are not hidden. The folder is free of links.
type spot struct{ folder, name string }

func (s spot) compare(other spot) int {
	return cmp.Or(strings.Compare(s.folder, other.folder), strings.Compare(s.name, other.name))
}

// survey is a set of paths as it was found: its identity, and the spots to watch
// to learn that it has become another, in order and each once.
type survey struct {
	id    Identity
	spots []spot
}

// surveyor makes surveys. The zero value reads every file each time; one with
// known remembers contents of files. It is not safe for concurrent use.
type surveyor struct {
	known map[string]content
	round uint64
	// limit takes the place of maxEntries where it is not 0.
	limit int

	sum     hash.Hash
	buf     []byte
	copying []byte
	entries int
	spots   []spot
}

// content is what is remembered of a file.
type content struct {
	attributes attributes
	sum        [sha256.Size]byte
	fault      syscall.Errno
	// since is when these attributes were first seen, by the clock of this
	// process: that of a file server may differ.
	since time.Time
	// settled is true once the file was read so long after since that no edit
	// can have left the attributes as they are.
	settled bool
	round   uint64
}

// survey looks at paths, which are absolute and in order.
func (s *surveyor) survey(paths []string) survey {
	if s.sum == nil {
		s.sum = sha256.New()
	}
	s.sum.Reset()
	s.round++
	s.entries, s.spots = 0, nil
	for _, p := range paths {
		s.text('p', p)
		s.path(p, true)
	}
	for name, c := range s.known {
		if c.round != s.round {
			delete(s.known, name)
		}
	}
	found := survey{spots: s.spots}
	s.sum.Sum(found.id.sum[:0])
	slices.SortFunc(found.spots, spot.compare)
	found.spots = slices.Compact(found.spots)
	return found
}

// text adds a field to the identity. Its kind and length go before it, so that no
// two sequences of fields are the same bytes.
func (s *surveyor) text(kind byte, value string) {
	s.buf = append(s.buf[:0], kind)
	s.buf = binary.AppendUvarint(s.buf, uint64(len(value)))
	s.buf = append(s.buf, value...)
	_, _ = s.sum.Write(s.buf) // a hash takes everything
}

func (s *surveyor) fault(number syscall.Errno) {
	s.buf = append(s.buf[:0], 'e')
	s.buf = binary.AppendUvarint(s.buf, uint64(number))
	_, _ = s.sum.Write(s.buf)
}

func (s *surveyor) attributes(a attributes) {
	s.buf = append(s.buf[:0], 'a')
	for _, field := range [...]uint64{a.dev, a.ino, uint64(a.size), uint64(a.mtime), uint64(a.ctime), uint64(a.mode), uint64(a.fault)} {
		s.buf = binary.BigEndian.AppendUint64(s.buf, field)
	}
	_, _ = s.sum.Write(s.buf)
}

// full reports whether n more entries are too many. That they are is part of the
// identity; how many more is not, since nothing is loaded then.
func (s *surveyor) full(n int) bool {
	limit := cmp.Or(s.limit, maxEntries)
	before := s.entries
	s.entries += n
	if before <= limit && s.entries > limit {
		s.text('x', "")
	}
	return s.entries > limit
}

// path adds an entry with all links on the way to it. Named paths lead into
// folders, links that were found in a folder do not.
func (s *surveyor) path(p string, named bool) {
	at, a := s.follow(p)
	if a.fault != 0 {
		s.fault(a.fault)
		return
	}
	s.text('t', at)
	switch {
	case a.mode.IsRegular():
		s.file(at, a)
	case a.mode.IsDir():
		s.text('d', "")
		if !named {
			return
		}
		// The folder's own entry in its parent is a spot already; a new one in its
		// place is seen there.
		s.folder(at, a)
	default:
		s.attributes(a)
	}
}

// follow goes to where p leads, link by link. It adds each link to the identity,
// and the places of the links and of the end to the spots. Where the way ends
// early, the spot is the name that is missing.
func (s *surveyor) follow(p string) (at string, a attributes) {
	root := filepath.VolumeName(p) + string(filepath.Separator)
	at, rest := root, strings.TrimPrefix(p, root)
	a = lstat(at)
	for links := 0; rest != "" && a.fault == 0; {
		name, after, _ := strings.Cut(rest, string(filepath.Separator))
		switch name {
		case "", ".":
			rest = after
			continue
		case "..":
			// at is free of links, so this is the folder above it.
			at, rest = filepath.Dir(at), after
			continue
		}
		next := filepath.Join(at, name)
		a = lstat(next)
		if a.mode&fs.ModeSymlink == 0 {
			if after != "" && a.fault == 0 && !a.mode.IsDir() {
				a = attributes{fault: syscall.ENOTDIR}
			}
			if after == "" || a.fault != 0 {
				s.spots = append(s.spots, spot{at, name})
			}
			at, rest = next, after
			continue
		}
		s.spots = append(s.spots, spot{at, name})
		s.attributes(a)
		target, err := os.Readlink(next)
		if err != nil {
			return next, attributes{fault: faultOf(err)}
		}
		s.text('l', target)
		if links++; links > maxLinks {
			return next, attributes{fault: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at, target = root, strings.TrimPrefix(target, root)
		}
		if rest = target; after != "" {
			rest = target + string(filepath.Separator) + after
		}
	}
	if a.fault != 0 {
		return at, a
	}
	// The way may have ended with ".." or a link to the root.
	return at, lstat(at)
}

// folder adds what is below a folder. Of the folder itself neither its size nor
// its times count: they change with every hidden file that an editor puts there.
func (s *surveyor) folder(at string, a attributes) {
	s.attributes(attributes{dev: a.dev, ino: a.ino, mode: a.mode, fault: a.fault})
	s.spots = append(s.spots, spot{folder: at})
	list, err := os.ReadDir(at)
	for _, d := range list {
		if strings.HasPrefix(d.Name(), ".") {
			continue
		}
		if s.full(1) {
			return
		}
		p := filepath.Join(at, d.Name())
		s.text('n', d.Name())
		a := lstat(p)
		switch {
		case a.fault != 0:
			s.fault(a.fault)
		case a.mode.IsDir():
			s.folder(p, a)
		case a.mode&fs.ModeSymlink != 0:
			s.path(p, false)
		case a.mode.IsRegular():
			s.file(p, a)
		default:
			s.attributes(a)
		}
	}
	if !s.full(0) {
		// What of a folder could be listed counts, and that it was not all.
		s.fault(faultOf(err))
	}
}

// file adds a regular file.
func (s *surveyor) file(at string, a attributes) {
	sum, fault := s.content(at, a)
	s.attributes(a)
	s.fault(fault)
	_, _ = s.sum.Write(sum[:])
}

// content returns the digest of a file that has the attributes a. The attributes
// were taken before, so what is remembered with them is never older than they are.
func (s *surveyor) content(at string, a attributes) (sum [sha256.Size]byte, fault syscall.Errno) {
	if a.size > maxContent {
		return sum, syscall.EFBIG
	}
	if s.known == nil {
		return s.digest(at)
	}
	now := time.Now()
	c, ok := s.known[at]
	if !ok || c.attributes != a {
		c = content{attributes: a, since: now}
	}
	if !c.settled {
		c.sum, c.fault = s.digest(at)
		c.settled = exactAttributes && c.fault == 0 && now.Sub(c.since) > settleAfter
	}
	c.round = s.round
	s.known[at] = c
	return c.sum, c.fault
}

func (s *surveyor) digest(at string) (sum [sha256.Size]byte, fault syscall.Errno) {
	// A pipe may have taken the file's place; opening it must not wait.
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return sum, faultOf(err)
	}
	defer f.Close() // read only: nothing is lost if it fails
	info, err := f.Stat()
	switch {
	case err != nil:
		return sum, faultOf(err)
	case !info.Mode().IsRegular():
		return sum, syscall.EINVAL
	}
	if s.copying == nil {
		s.copying = make([]byte, 16<<10)
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, io.LimitReader(f, maxContent), s.copying); err != nil {
		return sum, faultOf(err)
	}
	h.Sum(sum[:0])
	return sum, 0
}
