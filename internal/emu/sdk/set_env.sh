# Lets programs find the emulator where they look for CANN. To be sourced.
sdk=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
export ASCEND_HOME_PATH=$sdk ASCEND_TOOLKIT_HOME=$sdk ASCEND_OPP_PATH=$sdk/opp
export ASCEND_CUSTOM_OPP_PATH=$sdk/opp/vendors/emu${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}
export LD_LIBRARY_PATH=$sdk/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset sdk
