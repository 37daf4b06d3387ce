package rt

import (
	"fmt"
	"time"
	"unsafe"
)

// Notify is a flag that one stream sets and that another stream waits for and clears. It lies in
// shared memory, so the streams may belong to different processes.
type Notify struct {
	handle Handle
	id     uint32
	page   *sharedPage // its first word is the flag
	owner  bool        // created here; an imported notify cannot be exported again
}

func (n *Notify) set() { n.page.set(0, 1, 1) }

// waitAndReset waits for the flag and clears it. A limit of 0 means no limit.
func (n *Notify) waitAndReset(cancel <-chan struct{}, limit time.Duration) error {
	flag := n.page.word(0)
	if !n.page.until(0, func() bool { return flag.CompareAndSwap(1, 0) }, cancel, after(limit)) {
		return &Fault{Code: WaitTimeout, Text: fmt.Sprintf("EE1002: notify %d was not recorded within %v", n.id, limit)}
	}
	return nil
}

func (r *Runtime) addNotify(notify Out[Handle], page *sharedPage, owner bool) Code {
	n := &Notify{id: uint32(r.notifyCount.Add(1)), page: page, owner: owner}
	n.handle = r.Handles.New(NotifyKind, n)
	notify.Set(n.handle)
	return 0
}

func (r *Runtime) aclrtCreateNotify(t *Thread, notify Out[Handle], flag uint64) Code {
	const function = "aclrtCreateNotify"
	if flag > 1 {
		return t.Fail(ParamInvalid, "EE1003: %s: flag %#x is unknown", function, flag)
	}
	if c, code := r.Current(t); c == nil {
		return code
	}
	page, err := newSharedPage()
	if err != nil {
		return t.Fail(NoNotifyResource, "EE1023: %s: %v", function, err)
	}
	return r.addNotify(notify, page, true)
}

//npugen:decode aclrtNotify
func (r *Runtime) notify(t *Thread, function string, h Handle) (*Notify, Code) {
	n, ok := Lookup[*Notify](&r.Handles, h)
	if !ok {
		return nil, t.Fail(ParamInvalid, "EE1003: %s: %#x is no live notify; was it destroyed?", function, h)
	}
	return n, 0
}

func (r *Runtime) aclrtDestroyNotify(notify *Notify) Code {
	r.Handles.Delete(notify.handle)
	notify.page.close()
	return 0
}

func (r *Runtime) aclrtRecordNotify(t *Thread, notify *Notify, stream *Stream) Code {
	return r.Submit(t, stream, Task{Name: "aclrtRecordNotify", Repeatable: true, Releases: &r.outside, Run: func() error { notify.set(); return nil }})
}

func (r *Runtime) aclrtWaitAndResetNotify(t *Thread, notify *Notify, stream *Stream, timeout uint32) Code {
	limit := time.Duration(timeout) * time.Second
	return r.Submit(t, stream, Task{Name: "aclrtWaitAndResetNotify", Repeatable: true, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		return notify.waitAndReset(cancel, limit)
	}})
}

func (r *Runtime) aclrtGetNotifyId(notify *Notify, notifyID Out[uint32]) Code {
	notifyID.Set(notify.id)
	return 0
}

func (r *Runtime) aclrtNotifyBatchReset(t *Thread, notifies In[Handle], num uint64) Code {
	const function = "aclrtNotifyBatchReset"
	if num == 0 {
		return t.Null(function, "notifies")
	}
	var all []*Notify
	for _, h := range notifies.Slice(num) {
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

// aclrtNotifyGetExportKey: flag 2 turns the check of process ids off.
func (r *Runtime) aclrtNotifyGetExportKey(t *Thread, notify *Notify, key Out[byte], room, flags uint64) Code {
	const function = "aclrtNotifyGetExportKey"
	if room < keySize || flags != 0 && flags != 2 || !notify.owner {
		return t.Fail(ParamInvalid, "EE1003: %s: len %d, flags %d, made here: %t; a key has %d bytes, flags are 0 or 2, and only its maker exports a notify",
			function, room, flags, notify.owner, keySize)
	}
	if err := notify.page.file.admit(flags == 0, nil); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	writeKey(key, keySize, notify.page.file.name())
	return 0
}

func (r *Runtime) aclrtNotifySetImportPid(t *Thread, notify *Notify, pid *int32, num uint64) Code {
	const function = "aclrtNotifySetImportPid"
	if pid == nil || num == 0 || num > maxPids || !notify.owner {
		return t.Fail(ParamInvalid, "EE1003: %s: %d process ids; 1 to %d are possible, for a notify made here", function, num, maxPids)
	}
	if err := notify.page.file.admit(true, unsafe.Slice(pid, num)); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) aclrtNotifyImportByKey(t *Thread, notify Out[Handle], key string, _ uint64) Code {
	page, err := openPage(key)
	if err != nil {
		return t.Fail(ParamInvalid, "EE1003: aclrtNotifyImportByKey: %v", err)
	}
	return r.addNotify(notify, page, false)
}
