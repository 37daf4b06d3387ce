package rt

import (
	"fmt"
	"time"
)

// Notify is a flag that one stream sets and another waits for and clears. It lies in shared
// memory, so that the streams may be of different processes.
type Notify struct {
	id    uint32
	page  *sharedPage // its first word is the flag
	owner bool        // made here: an imported one cannot be exported again
}

func (r *Runtime) notifyFunctions() table {
	return table{
		"aclrtCreateNotify":       r.createNotify,
		"aclrtDestroyNotify":      r.destroyNotify,
		"aclrtRecordNotify":       r.recordNotify,
		"aclrtWaitAndResetNotify": r.waitNotify,
		"aclrtGetNotifyId":        r.notifyID,
		"aclrtNotifyBatchReset":   r.resetNotifies,
		"aclrtNotifyGetExportKey": r.exportNotify,
		"aclrtNotifySetImportPid": r.allowNotify,
		"aclrtNotifyImportByKey":  r.importNotify,
	}
}

func (n *Notify) set() { n.page.set(0, 1, 1) }

// waitAndReset takes the flag; a limit of 0 waits for ever.
func (n *Notify) waitAndReset(cancel <-chan struct{}, limit time.Duration) error {
	flag := n.page.word(0)
	if !n.page.until(0, func() bool { return flag.CompareAndSwap(1, 0) }, cancel, after(limit)) {
		return &Fault{Code: waitTimeout, Text: fmt.Sprintf("EE1002: notify %d was not recorded within %v", n.id, limit)}
	}
	return nil
}

func (r *Runtime) addNotify(out uint64, page *sharedPage, owner bool) uint64 {
	Write(out, r.Handles.New(NotifyKind, &Notify{id: uint32(r.notifyCount.Add(1)), page: page, owner: owner}))
	return 0
}

func (r *Runtime) createNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtCreateNotify"
	if a[0] == 0 {
		return t.null(function, "notify")
	}
	if a[1] > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: flag %#x is unknown", function, a[1])
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	page, err := newSharedPage()
	if err != nil {
		return t.Fail(noNotifyResource, "EE1023: %s: %v", function, err)
	}
	return r.addNotify(a[0], page, true)
}

func (r *Runtime) notify(t *Thread, function string, h uint64) (*Notify, uint64) {
	if h == 0 {
		return nil, t.null(function, "notify")
	}
	n, ok := Lookup[*Notify](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live notify; was it destroyed?", function, h)
	}
	return n, 0
}

func (r *Runtime) destroyNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtDestroyNotify", a[0])
	if n == nil {
		return code
	}
	r.Handles.Delete(a[0])
	n.page.close()
	return 0
}

func (r *Runtime) recordNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtRecordNotify", a[0])
	if n == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	return r.Submit(t, s, Task{Name: "aclrtRecordNotify", Repeatable: true, Releases: &r.outside, Run: func() error { n.set(); return nil }})
}

func (r *Runtime) waitNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtWaitAndResetNotify", a[0])
	if n == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	limit := time.Duration(uint32(a[2])) * time.Second
	return r.Submit(t, s, Task{Name: "aclrtWaitAndResetNotify", Repeatable: true, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		return n.waitAndReset(cancel, limit)
	}})
}

func (r *Runtime) notifyID(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtGetNotifyId", a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtGetNotifyId", "notifyId")
	}
	Write(a[1], n.id)
	return 0
}

func (r *Runtime) resetNotifies(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyBatchReset"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "notifies")
	}
	var all []*Notify
	for _, h := range Read[uint64](a[0], a[1]) {
		n, code := r.notify(t, function, h)
		if n == nil {
			return code
		}
		all = append(all, n)
	}
	for _, n := range all {
		n.page.word(0).Store(0)
	}
	return 0
}

// exportNotify: flag 2 turns the check of process ids off.
func (r *Runtime) exportNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyGetExportKey"
	n, code := r.notify(t, function, a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "key")
	}
	if a[2] < keySize || a[3] != 0 && a[3] != 2 || !n.owner {
		return t.Fail(paramInvalid, "EE1003: %s: len %d, flags %d, made here: %t; a key has %d bytes, flags are 0 or 2, and only its maker exports a notify",
			function, a[2], a[3], n.owner, keySize)
	}
	if err := n.page.file.admit(a[3] == 0, nil); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	writeKey(a[1], keySize, n.page.file.name())
	return 0
}

func (r *Runtime) allowNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifySetImportPid"
	n, code := r.notify(t, function, a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 || a[2] == 0 || a[2] > maxPids || !n.owner {
		return t.Fail(paramInvalid, "EE1003: %s: %d process ids; 1 to %d are possible, for a notify made here", function, a[2], maxPids)
	}
	if err := n.page.file.admit(true, Read[int32](a[1], a[2])); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) importNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyImportByKey"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "notify or key")
	}
	page, err := openPage(CString(a[1]))
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	return r.addNotify(a[0], page, false)
}
