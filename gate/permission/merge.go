package permission

// Merge returns what held and added say together. Order a path's answers as
// nothing, read, write, denied: then Merge is the least upper bound of the two
// for every path and host. Whatever either allows is allowed unless either
// denies it.
//
// A deny is thus never lifted by adding a grant, not even by one that allows
// exactly what the deny cut out. To grant that after all, replace the profile
// that holds the deny. Both must belong to one environment.
func Merge(held, added Profile) Profile {
	one, other := compile(held), compile(added)
	r := unite(one, other)
	r.anyHost = one.anyHost || other.anyHost
	for _, side := range []*rules{one, other} {
		if !r.anyHost {
			for host := range side.hosts {
				r.hosts[host] = true
			}
		}
		for p, access := range side.allows {
			r.allows[p] = stronger(r.allows[p], access)
		}
		r.minimal = stronger(r.minimal, side.minimal)
	}
	return r.prune().profile()
}
