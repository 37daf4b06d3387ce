package rt

import "github.com/goascend/cann/internal/abi"

// A device is one group with all its cores, as on Atlas A2 and A3.

// groupInfo is an aclrtGroupInfo; filled is set by aclrtGetAllGroupInfo.
type groupInfo struct{ filled bool }

func (r *Runtime) aclrtSetGroup(t *Thread, groupID int32) Code {
	if c, code := r.Current(t); c == nil {
		return code
	}
	if groupID != 0 {
		return t.Fail(int32(abi.ACL_ERROR_RT_GROUP_NOT_CREATE), "EE1003: aclrtSetGroup: group %d does not exist, there is group 0", groupID)
	}
	return 0
}

func (r *Runtime) aclrtGetGroupCount(t *Thread, count Out[uint32]) Code {
	if c, code := r.Current(t); c == nil {
		return code
	}
	count.Set(1)
	return 0
}

func (r *Runtime) aclrtCreateGroupInfo() Handle { return r.Handles.New(GroupInfoKind, &groupInfo{}) }

//npugen:decode aclrtGroupInfo
func (r *Runtime) groupInfo(t *Thread, function string, h Handle) (*groupInfo, Code) {
	g, ok := Lookup[*groupInfo](&r.Handles, h)
	if !ok {
		return nil, t.Fail(InvalidParam, "EH0001: %s: %#x is no live group information", function, h)
	}
	return g, 0
}

func (r *Runtime) aclrtDestroyGroupInfo(t *Thread, groupInfo Handle) Code {
	_, code := r.groupInfo(t, "aclrtDestroyGroupInfo", groupInfo)
	if code == 0 {
		r.Handles.Delete(groupInfo)
	}
	return code
}

func (r *Runtime) aclrtGetAllGroupInfo(t *Thread, groupInfo *groupInfo) Code {
	if c, code := r.Current(t); c == nil {
		return code
	}
	groupInfo.filled = true
	return 0
}

// aclrtGetGroupInfoDetail writes an attribute, which is a 32-bit number, and its size in bytes.
func (r *Runtime) aclrtGetGroupInfoDetail(t *Thread, groupInfo *groupInfo, groupIndex, attr int32, attrValue Out[int32], valueLen uint64, paramRetSize Out[uint64]) Code {
	chip := r.chip()
	values := map[int32]int64{
		int32(abi.ACL_GROUP_AICORE_INT): chip.Cube, int32(abi.ACL_GROUP_AIV_INT): chip.Vector, int32(abi.ACL_GROUP_AIC_INT): chip.Cube,
		int32(abi.ACL_GROUP_SDMANUM_INT): 1, int32(abi.ACL_GROUP_ASQNUM_INT): 1, int32(abi.ACL_GROUP_GROUPID_INT): 0,
	}
	v, known := values[attr]
	if !groupInfo.filled || groupIndex != 0 || !known || valueLen < 4 {
		return t.Fail(InvalidParam, "EH0001: aclrtGetGroupInfoDetail: group %d, attribute %d, %d bytes, information read: %t", groupIndex, attr, valueLen, groupInfo.filled)
	}
	attrValue.Set(int32(v))
	paramRetSize.Set(4)
	return 0
}
