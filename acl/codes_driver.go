package acl

import "github.com/goascend/cann/internal/abi"

// driverCodes are the codes of the driver's library for management.
var driverCodes = map[Code]codeInfo{
	abi.DCMI_ERR_CODE_INVALID_PARAMETER:        {"DCMI_ERR_CODE_INVALID_PARAMETER", "the driver's library rejected an argument", "", ErrInvalidArgument, DamageNone},
	abi.DCMI_ERR_CODE_OPER_NOT_PERMITTED:       {"DCMI_ERR_CODE_OPER_NOT_PERMITTED", "the user may not ask this", "run as root or as a member of the driver's group", nil, DamageNone},
	abi.DCMI_ERR_CODE_MEM_OPERATE_FAIL:         {"DCMI_ERR_CODE_MEM_OPERATE_FAIL", "the host has no memory", "", nil, DamageNone},
	abi.DCMI_ERR_CODE_SECURE_FUN_FAIL:          {"DCMI_ERR_CODE_SECURE_FUN_FAIL", "the driver's library failed inside", "", nil, DamageNone},
	abi.DCMI_ERR_CODE_INNER_ERR:                {"DCMI_ERR_CODE_INNER_ERR", "the driver's library failed inside", "", nil, DamageNone},
	abi.DCMI_ERR_CODE_TIME_OUT:                 {"DCMI_ERR_CODE_TIME_OUT", "the driver did not answer in time", "", ErrTimeout, DamageNone},
	abi.DCMI_ERR_CODE_INVALID_DEVICE_ID:        {"DCMI_ERR_CODE_INVALID_DEVICE_ID", "the driver has no device of this number", "", ErrInvalidArgument, DamageNone},
	abi.DCMI_ERR_CODE_DEVICE_NOT_EXIST:         {"DCMI_ERR_CODE_DEVICE_NOT_EXIST", "the driver finds no device", "compare with npu-smi info and ASCEND_RT_VISIBLE_DEVICES", ErrInvalidArgument, DamageNone},
	abi.DCMI_ERR_CODE_IOCTL_FAIL:               {"DCMI_ERR_CODE_IOCTL_FAIL", "the driver refused a call", "look at dmesg", nil, DamageNone},
	abi.DCMI_ERR_CODE_SEND_MSG_FAIL:            {"DCMI_ERR_CODE_SEND_MSG_FAIL", "a message to the device was not sent", "look at dmesg", nil, DamageNone},
	abi.DCMI_ERR_CODE_RECV_MSG_FAIL:            {"DCMI_ERR_CODE_RECV_MSG_FAIL", "the device did not answer a message", "look at dmesg", nil, DamageNone},
	abi.DCMI_ERR_CODE_NOT_REDAY:                {"DCMI_ERR_CODE_NOT_REDAY", "the device is starting", "ask later", nil, DamageNone},
	abi.DCMI_ERR_CODE_NOT_SUPPORT_IN_CONTAINER: {"DCMI_ERR_CODE_NOT_SUPPORT_IN_CONTAINER", "the driver does not answer this in a container", "", ErrNotSupported, DamageNone},
	abi.DCMI_ERR_CODE_RESET_FAIL:               {"DCMI_ERR_CODE_RESET_FAIL", "the device was not reset", "", nil, DamageNone},
	abi.DCMI_ERR_CODE_ABORT_OPERATE:            {"DCMI_ERR_CODE_ABORT_OPERATE", "the call was broken off", "", ErrAborted, DamageNone},
	abi.DCMI_ERR_CODE_IS_UPGRADING:             {"DCMI_ERR_CODE_IS_UPGRADING", "the firmware is being upgraded", "ask later", nil, DamageNone},
	abi.DCMI_ERR_CODE_RESOURCE_OCCUPIED:        {"DCMI_ERR_CODE_RESOURCE_OCCUPIED", "another process or container uses the device", "ask later", nil, DamageNone},
	abi.DCMI_ERR_CODE_CONFIG_INFO_NOT_EXIST:    {"DCMI_ERR_CODE_CONFIG_INFO_NOT_EXIST", "what was asked for was never set", "", nil, DamageNone},
	abi.DCMI_ERR_CODE_NOT_SUPPORT:              {"DCMI_ERR_CODE_NOT_SUPPORT", "the chip or its driver does not report this", "", ErrNotSupported, DamageNone},
}
