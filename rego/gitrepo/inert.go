package gitrepo

import "strings"

// inertKeys are the variables that start no program when git reads, whatever
// their value. Everything else counts: new versions of git bring new keys, and
// core.fsmonitor was one once. A star stands for any subsection.
var inertKeys = keySet(`
	core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkroundtripencoding core.checkstat
	core.commentchar core.commentstring core.commitgraph core.compression core.createobject
	core.deltabasecachelimit core.eol core.excludesfile core.filemode core.filesreflocktimeout core.fscache
	core.fsync core.fsyncmethod core.fsyncobjectfiles core.hidedotfiles core.ignorecase core.ignorestat
	core.logallrefupdates core.longpaths core.loosecompression core.multipackindex core.notesref
	core.packedgitlimit core.packedgitwindowsize core.packedrefstimeout core.precomposeunicode
	core.preferjsymlinks core.preloadindex core.protecthfs core.protectntfs core.quotepath
	core.repositoryformatversion core.safecrlf core.sharedrepository core.sparsecheckout
	core.sparsecheckoutcone core.splitindex core.symlinks core.trustctime core.unsetenvvars
	core.untrackedcache core.usereplacerefs core.warnambiguousrefs core.whitespace core.worktree

	extensions.compatobjectformat extensions.noop extensions.objectformat extensions.preciousobjects
	extensions.refstorage extensions.relativeworktrees extensions.worktreeconfig

	remote.*.fetch remote.*.followremotehead remote.*.gh-resolved remote.*.mirror remote.*.prune
	remote.*.prunetags remote.*.push remote.*.pushurl remote.*.skipdefaultupdate remote.*.skipfetchall
	remote.*.tagopt remote.*.url remote.pushdefault url.*.insteadof url.*.pushinsteadof

	author.email author.name committer.email committer.name user.email user.name user.signingkey
	user.useconfigonly

	apply.whitespace checkout.defaultremote checkout.guess clone.defaultremotename commit.cleanup
	commit.gpgsign commit.status commit.template commit.verbose fetch.all fetch.parallel fetch.prune
	fetch.prunetags fetch.writecommitgraph format.signoff init.defaultbranch i18n.commitencoding
	i18n.logoutputencoding merge.branchdesc merge.conflictstyle merge.defaulttoupstream merge.ff merge.log
	merge.renames merge.stat merge.tool notes.displayref pull.ff pull.rebase push.autosetupremote
	push.default push.followtags push.recursesubmodules push.usebitmaps rebase.abbreviatecommands
	rebase.autosquash rebase.autostash rebase.updaterefs rerere.autoupdate rerere.enabled
	receive.denycurrentbranch receive.denydeletes receive.denynonfastforwards stash.showpatch
	stash.showstat tag.forcesignannotated tag.gpgsign tag.sort

	blame.blankboundary blame.coloring blame.date blame.ignorerevsfile blame.markignoredlines
	blame.markunblamablelines blame.showemail blame.showroot branch.autosetupmerge branch.autosetuprebase
	branch.sort column.branch column.status column.tag column.ui diff.algorithm diff.autorefreshindex
	diff.colormoved diff.colormovedws diff.context diff.dirstat diff.dstprefix diff.guitool
	diff.ignoresubmodules diff.indentheuristic diff.interhunkcontext diff.mnemonicprefix diff.noprefix
	diff.relative diff.renamelimit diff.renames diff.srcprefix diff.statgraphwidth diff.statnamewidth
	diff.suppressblankempty diff.tool diff.wordregex diff.wserrorhighlight grep.column grep.extendedregexp
	grep.fallbacktonoindex grep.fullname grep.linenumber grep.patterntype grep.threads log.abbrevcommit
	log.date log.decorate log.diffmerges log.excludedecoration log.follow log.graphcolors
	log.initialdecorationset log.mailmap log.showroot mailmap.blob mailmap.file status.aheadbehind
	status.branch status.displaycommentprefix status.relativepaths status.renamelimit status.renames
	status.short status.showstash status.showuntrackedfiles

	feature.experimental feature.manyfiles gc.auto gc.autodetach gc.autopacklimit gc.pruneexpire
	gc.reflogexpire gc.reflogexpireunreachable gc.worktreepruneexpire index.recordendofindexentries
	index.recordoffsettable index.skiphash index.sparse index.threads index.version lfs.repositoryformatversion
	lfs.*.access maintenance.auto maintenance.strategy pack.compression pack.deltacachesize pack.depth
	pack.threads pack.usebitmaps pack.window pack.windowmemory pack.writebitmaphashcache
	pack.writereverseindex http.postbuffer http.sslverify http.version submodule.active
	submodule.*.active submodule.*.branch submodule.*.url
`)

// inertSections are the sections whose every variable is about looks or about
// branches, which no reader takes programs from.
var inertSections = map[string]bool{"advice": true, "color": true, "gitflow": true, "gui": true}

func keySet(text string) map[string]bool {
	keys := strings.Fields(text)
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}

func isInert(e entry) bool {
	if inertSections[e.section] {
		return true
	}
	if e.subsection == "" {
		if e.section == "core" && e.name == "fsmonitor" {
			return isFalse(e)
		}
		return inertKeys[e.section+"."+e.name]
	}
	// What is kept about a branch is read by git pull, merge and rebase, and by
	// tools that keep notes of their own here.
	if e.section == "branch" {
		return true
	}
	return inertKeys[e.section+".*."+e.name]
}

// isFalse is true for a value that switches off. A name without a value is true.
func isFalse(e entry) bool {
	if e.bare {
		return false
	}
	switch strings.ToLower(e.value) {
	case "false", "no", "off", "0", "":
		return true
	default:
		return false
	}
}
