# Lets programs find the emulator where they look for CANN, and compilers its headers: those
# of operators and of opdev also by their bare names, as CANN's examples write them. npu-smi answers for the
# emulated devices. To be sourced by bash.
_cann_emu=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASCEND_HOME_PATH=$_cann_emu ASCEND_TOOLKIT_HOME=$_cann_emu ASCEND_OPP_PATH=$_cann_emu/opp
export ASCEND_CUSTOM_OPP_PATH=$_cann_emu/opp/vendors/emu${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}
export PATH=$_cann_emu/bin:$PATH
export LD_LIBRARY_PATH=$_cann_emu/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LIBRARY_PATH=$_cann_emu/lib64${LIBRARY_PATH:+:$LIBRARY_PATH}
export CPATH=$_cann_emu/include:$_cann_emu/include/aclnnop:$_cann_emu/include/aclnn${CPATH:+:$CPATH}
export CMAKE_PREFIX_PATH=$_cann_emu${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
unset _cann_emu
