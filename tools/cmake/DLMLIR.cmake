# Finds LLVM/MLIR 22 and offers dl_add_library / dl_add_tool / dl_dialect.

# Debian's MLIRConfigVersion accepts only major.minor: "22" is refused.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR}) # add_mlir_doc writes to ${MLIR_BINARY_DIR}/docs
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions) # no add_definitions(${LLVM_DEFINITIONS}) on top: it redefines the C++ ABI macro
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

# Every exported MLIR archive carries INTERFACE_LINK_LIBRARIES "LLVM" (= libLLVM.so). Left alone, a "static" tool
# gets the archives and libLLVM.so: two copies of LLVM. Swap in the static components.
add_library(dl_llvm_static INTERFACE)
llvm_map_components_to_libnames(dl_llvm_components
  Support Core IRReader AsmParser BitReader BitWriter TransformUtils Passes CodeGen Target MC TargetParser
  FrontendOpenMP FrontendOffloading ExecutionEngine BinaryFormat
  NVPTXCodeGen NVPTXDesc NVPTXInfo X86CodeGen X86Desc X86Info X86AsmParser)
target_link_libraries(dl_llvm_static INTERFACE ${dl_llvm_components})
get_property(dl_mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(t IN LISTS dl_mlir_libs)
  if(TARGET ${t} AND NOT t STREQUAL "MLIR")
    get_target_property(deps ${t} INTERFACE_LINK_LIBRARIES)
    if(deps)
      list(TRANSFORM deps REPLACE "^LLVM$" "dl_llvm_static")
      list(TRANSFORM deps REPLACE "LINK_ONLY:LLVM>" "LINK_ONLY:dl_llvm_static>")
      set_target_properties(${t} PROPERTIES INTERFACE_LINK_LIBRARIES "${deps}")
    endif()
  endif()
endforeach()

# One precompiled header of all upstream headers: a file then costs 1-4 s instead of 7-29 s.
if(DL_PCH)
  add_library(dl_pch STATIC ${CMAKE_SOURCE_DIR}/tools/cmake/PCH.cpp)
  target_precompile_headers(dl_pch PRIVATE ${CMAKE_SOURCE_DIR}/tools/cmake/PCH.h)
  target_compile_options(dl_pch PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
endif()

function(dl_use_pch target)
  if(DL_PCH)
    target_precompile_headers(${target} REUSE_FROM dl_pch)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# dl_add_library(NAME SOURCES a.cpp ... LINK lib ... DEPENDS tblgen-target ...)
function(dl_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} dl_llvm_static)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  dl_use_pch(${name})
endfunction()

function(dl_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} dl_llvm_static)
  target_link_options(${name} PRIVATE -Wl,--gc-sections,--as-needed -static-libstdc++ -static-libgcc)
  dl_use_pch(${name})
endfunction()
