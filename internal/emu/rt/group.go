package rt

import "github.com/goascend/cann/internal/abi"

// groupFunctions: a device is one group with all its cores, as Atlas A2 and A3 are.
func (r *Runtime) groupFunctions() table {
	return table{
		"aclrtSetGroup":           r.setGroup,
		"aclrtGetGroupCount":      r.groupCount,
		"aclrtCreateGroupInfo":    r.createGroupInfo,
		"aclrtDestroyGroupInfo":   r.destroyGroupInfo,
		"aclrtGetAllGroupInfo":    r.allGroupInfo,
		"aclrtGetGroupInfoDetail": r.groupDetail,
	}
}

// groupInfo is aclrtGroupInfo; filled says that aclrtGetAllGroupInfo has.
type groupInfo struct{ filled bool }

func (r *Runtime) setGroup(t *Thread, a []uint64) uint64 {
	if c, code := r.current(t); c == nil {
		return code
	}
	if int32(a[0]) != 0 {
		return t.Fail(int32(abi.ACL_ERROR_RT_GROUP_NOT_CREATE), "EE1003: aclrtSetGroup: group %d does not exist, there is group 0", int32(a[0]))
	}
	return 0
}

func (r *Runtime) groupCount(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetGroupCount", "count")
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	Write[uint32](a[0], 1)
	return 0
}

func (r *Runtime) createGroupInfo(*Thread, []uint64) uint64 {
	return r.Handles.New(GroupInfoKind, &groupInfo{})
}

func (r *Runtime) groupInfo(t *Thread, function string, h uint64) (*groupInfo, uint64) {
	if h == 0 {
		return nil, t.null(function, "groupInfo")
	}
	g, ok := Lookup[*groupInfo](&r.Handles, h)
	if !ok {
		return nil, t.Fail(invalidParam, "EH0001: %s: %#x is no live group information", function, h)
	}
	return g, 0
}

func (r *Runtime) destroyGroupInfo(t *Thread, a []uint64) uint64 {
	g, code := r.groupInfo(t, "aclrtDestroyGroupInfo", a[0])
	if g != nil {
		r.Handles.Delete(a[0])
	}
	return code
}

func (r *Runtime) allGroupInfo(t *Thread, a []uint64) uint64 {
	g, code := r.groupInfo(t, "aclrtGetAllGroupInfo", a[0])
	if g == nil {
		return code
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	g.filled = true
	return 0
}

// groupDetail writes an attribute, a 32-bit number, and its size.
func (r *Runtime) groupDetail(t *Thread, a []uint64) uint64 {
	const function = "aclrtGetGroupInfoDetail"
	g, code := r.groupInfo(t, function, a[0])
	if g == nil {
		return code
	}
	if a[3] == 0 || a[5] == 0 {
		return t.null(function, "attrValue or paramRetSize")
	}
	chip := socs[r.config.SoC]
	values := map[int32]int64{
		int32(abi.ACL_GROUP_AICORE_INT): chip.cube, int32(abi.ACL_GROUP_AIV_INT): chip.vector, int32(abi.ACL_GROUP_AIC_INT): chip.cube,
		int32(abi.ACL_GROUP_SDMANUM_INT): 1, int32(abi.ACL_GROUP_ASQNUM_INT): 1, int32(abi.ACL_GROUP_GROUPID_INT): 0,
	}
	v, known := values[int32(a[2])]
	if !g.filled || int32(a[1]) != 0 || !known || a[4] < 4 {
		return t.Fail(invalidParam, "EH0001: %s: group %d, attribute %d, %d bytes, information read: %t", function, int32(a[1]), int32(a[2]), a[4], g.filled)
	}
	Write(a[3], int32(v))
	Write[uint64](a[5], 4)
	return 0
}
