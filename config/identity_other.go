//go:build !linux && !darwin && !freebsd

package config

import (
	"io/fs"
	"os"
)

// exactAttributes: here no inode and no time of a change of attributes is told,
// so that an edit which puts size and time back is seen by its content alone.
const exactAttributes = false

func lstat(path string) attributes { return attributesOf(os.Lstat(path)) }

func stat(path string) attributes { return attributesOf(os.Stat(path)) }

func attributesOf(info fs.FileInfo, err error) attributes {
	if err != nil {
		return attributes{fault: faultOf(err)}
	}
	return attributes{size: info.Size(), mtime: info.ModTime().UnixNano(), mode: info.Mode()}
}
