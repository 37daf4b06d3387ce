# find_package(cann) defines cann::ascendcl, cann::nnopbase, cann::opapi, cann::hccl and
# cann::acl_op_compiler, with the headers. The folder of the SDK is in CMAKE_PREFIX_PATH
# after set_env.sh.
get_filename_component(_cann_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(_cann_name ascendcl nnopbase opapi hccl acl_op_compiler)
  if(NOT TARGET cann::${_cann_name})
    add_library(cann::${_cann_name} SHARED IMPORTED)
    set_target_properties(cann::${_cann_name} PROPERTIES
      IMPORTED_LOCATION "${_cann_root}/lib64/lib${_cann_name}.so"
      IMPORTED_SONAME "lib${_cann_name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_cann_root}/include")
  endif()
endforeach()
unset(_cann_name)
unset(_cann_root)
