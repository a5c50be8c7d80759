# Tile kernels of many shapes from one text each: products with b in shared memory (tile_mma_shared.mlir.in) and Grams
# (tile_gram.mlir.in), for tile_mma_test and tile_gram_test.

# dl_tile_lines(VAR WARPS): a layout of whole rows for any matrix, WARPS warps one below the other.
function(dl_tile_lines var warps)
  set(${var} "#tile.blocked<per_thread = [1, 2], lanes = [4, 8], warps = [${warps}, 1], order = [1, 0], num_warps = ${warps}>" PARENT_SCOPE)
endfunction()

# dl_shared_product(FILE M N K TYPE SWIZZLE WARPS_M WARPS_N B [wgmma]): adds a kernel. B is b, K x N in the buffer, or b_t,
# N x K. Of wgmma groups of four warps share M and N, and one instruction has all columns of a group.
function(dl_shared_product file M N K TYPE SWIZZLE WARPS_M WARPS_N B)
  set(NAME "@m${M}_n${N}_k${K}_${TYPE}_swizzle${SWIZZLE}_warps${WARPS_M}x${WARPS_N}_${B}")
  math(EXPR warps "${WARPS_M} * ${WARPS_N}")
  set(instruction mma.m16n8k16.${TYPE})
  set(BARRIER)
  if("wgmma" IN_LIST ARGN)
    math(EXPR warps "4 * ${warps}")
    math(EXPR columns "${N} / ${WARPS_N}")
    set(instruction wgmma.m64n${columns}k16.${TYPE})
    set(BARRIER async_proxy)
  endif()
  math(EXPR THREADS "32 * ${warps}")
  dl_tile_lines(LINES ${warps})
  if(B STREQUAL b)
    set(ROWS ${K})
    set(PITCH ${N})
    set(TRANSPOSED transposed)
  else()
    set(ROWS ${N})
    set(PITCH ${K})
    set(TRANSPOSED)
  endif()
  set(BUFFER ${ROWS}x${PITCH})
  foreach(operand A C)
    string(TOLOWER ${operand} lower)
    set(FRAGMENT_${operand} "#tile.fragment<\"${instruction}\", \"${lower}\", warps = [${WARPS_M}, ${WARPS_N}]>")
  endforeach()
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/tile_mma_shared.mlir.in text)
  string(CONFIGURE "${text}" text @ONLY)
  file(APPEND ${file} "${text}")
endfunction()

# dl_gram(FILE C K TYPE SWIZZLE WARPS FACTORS): adds a kernel. FACTORS names the buffers, the x first and a last: "a" is the
# Gram of a, "xa" of x with a, "xya" of x and y with a. The results of x (d) and y (e) are C x C each without half, then
# with half = 1, 2 .. C/2.
function(dl_gram file C K TYPE SWIZZLE WARPS FACTORS)
  set(NAME "@c${C}_k${K}_${TYPE}_swizzle${SWIZZLE}_warps${WARPS}_${FACTORS}")
  math(EXPR THREADS "32 * ${WARPS}")
  dl_tile_lines(LINES ${WARPS})
  set(buffer "!tile.shared<${C}x${K}x${TYPE}, #tile.swizzled<${SWIZZLE}>>")
  set(result "!tile.shared<${C}x${C}xf32, #tile.swizzled<${SWIZZLE}>>")
  set(halves "none")
  foreach(half 1 2 4 8 16 32 64)
    math(EXPR rest "${C} % (2 * ${half})")
    if(rest EQUAL 0)
      list(APPEND halves ${half})
    endif()
  endforeach()
  list(LENGTH halves rows)
  math(EXPR rows "${rows} * ${C}")

  set(ARGUMENTS)
  set(BODY)
  string(REGEX MATCHALL "." factors ${FACTORS})
  foreach(f ${factors})
    set(memory "memref<?x${C}x${K}x${TYPE}, strided<[?, ${K}, 1]>>")
    string(APPEND ARGUMENTS "\n    %${f}: ${memory} {tile.name = \"${f}\", tile.role = \"input\", tile.shape = [\"B\", ${C}, ${K}], tile.access = \"r\"},")
    string(APPEND BODY "  %r${f} = tile.load %${f}[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : ${memory} -> tensor<${C}x${K}x${TYPE}, ${LINES}>\n"
      "  %s${f} = tile.alloc : ${buffer}\n"
      "  tile.local_store %r${f}, %s${f} : tensor<${C}x${K}x${TYPE}, ${LINES}>, ${buffer}\n")
  endforeach()
  set(xs ${factors})
  if(NOT FACTORS STREQUAL a)
    list(POP_BACK xs)
  endif()
  set(outputs d e)
  set(x_values)
  set(g_values)
  set(x_types)
  set(g_types)
  foreach(x ${xs})
    list(POP_FRONT outputs output)
    list(APPEND x_values %s${x})
    list(APPEND g_values %g${output})
    list(APPEND x_types ${buffer})
    list(APPEND g_types ${result})
    string(APPEND BODY "  %g${output} = tile.alloc : ${result}\n")
    string(APPEND ARGUMENTS "\n    %${output}: memref<?x${rows}x${C}xf32, strided<[?, ${C}, 1]>> {tile.name = \"${output}\", tile.role = \"output\", tile.shape = [\"B\", ${rows}, ${C}], tile.access = \"w\"},")
  endforeach()
  string(REGEX REPLACE ",$" "" ARGUMENTS "${ARGUMENTS}")
  foreach(list x_values g_values x_types g_types)
    string(REPLACE ";" ", " ${list} "${${list}}")
  endforeach()

  set(row 0)
  foreach(half ${halves})
    string(APPEND BODY "\n")
    foreach(output d e)
      if(g_values MATCHES "%g${output}")
        string(APPEND BODY "  tile.local_store %poison, %g${output} : tensor<${C}x${C}xf32, ${LINES}>, ${result}\n")
      endif()
    endforeach()
    set(with_half "half ${half}")
    if(half STREQUAL none)
      set(with_half)
    endif()
    string(APPEND BODY "  tile.barrier\n"
      "  tile.gram ${x_values} with %sa into ${g_values} ${with_half} : ${x_types} with ${buffer} into ${g_types}\n"
      "  tile.barrier\n"
      "  %row${row} = arith.constant ${row} : index\n")
    foreach(output d e)
      if(g_values MATCHES "%g${output}")
        string(APPEND BODY "  %r${output}${row} = tile.local_load %g${output} : ${result} -> tensor<${C}x${C}xf32, ${LINES}>\n"
          "  tile.store %r${output}${row}, %${output}[%n, %row${row}, %c0] axes [1, 2] in_bounds [true, true] : tensor<${C}x${C}xf32, ${LINES}>, memref<?x${rows}x${C}xf32, strided<[?, ${C}, 1]>>\n")
      endif()
    endforeach()
    math(EXPR row "${row} + ${C}")
  endforeach()
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/tile_gram.mlir.in text)
  string(CONFIGURE "${text}" text @ONLY)
  file(APPEND ${file} "${text}")
endfunction()

# dl_tile_kernels(VAR FILE FUNCTION WORDS...): a file with one kernel of the function for each list of words; VAR is its name.
function(dl_tile_kernels var name function)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.mlir)
  file(WRITE ${file}.new "")
  foreach(words ${ARGN})
    separate_arguments(words)
    cmake_language(CALL ${function} ${file}.new ${words})
  endforeach()
  file(COPY_FILE ${file}.new ${file} ONLY_IF_DIFFERENT)
  set(${var} ${file} PARENT_SCOPE)
endfunction()

# M N K, type, swizzle, warps along M and N, b as it lies: with whole and with odd numbers of fragments for each warp, rows of
# one panel, of several and of parts of one.
dl_tile_kernels(mma_shared mma_shared dl_shared_product
  "64 64 64 bf16 128 4 1 b" "64 64 64 bf16 128 4 1 b_t" "64 192 192 bf16 128 4 1 b" "64 192 192 bf16 128 4 1 b_t"
  "40 96 96 bf16 128 2 2 b" "40 96 96 bf16 128 2 2 b_t" "64 96 192 f16 64 4 1 b" "64 96 192 f16 64 4 1 b_t"
  "40 192 96 f16 64 2 2 b" "40 192 96 f16 64 2 2 b_t" "64 24 96 bf16 64 4 1 b" "64 24 96 bf16 64 4 1 b_t"
  "64 96 32 bf16 32 4 1 b" "64 96 32 bf16 32 4 1 b_t" "32 192 64 bf16 32 2 2 b" "32 192 64 bf16 32 2 2 b_t"
  "128 64 96 f16 0 4 1 b" "128 64 96 f16 0 4 1 b_t" "32 48 192 bf16 0 2 2 b" "32 48 192 bf16 0 2 2 b_t"
  "64 8 16 bf16 128 4 1 b" "64 8 16 bf16 128 4 1 b_t" "16 96 48 bf16 128 1 4 b" "16 96 48 bf16 128 1 4 b_t"
  "32 48 80 bf16 128 2 3 b" "32 48 80 bf16 128 2 3 b_t" "16 144 32 f16 64 1 3 b" "16 144 32 f16 64 1 3 b_t")

# Panels of every swizzle, one and several; steps of K inside of a panel and from one to the next; both majors.
dl_tile_kernels(mma_wgmma mma_wgmma dl_shared_product
  "64 64 64 bf16 128 1 1 b wgmma" "64 64 64 bf16 128 1 1 b_t wgmma" "64 128 32 bf16 128 1 1 b wgmma"
  "64 32 128 bf16 128 1 1 b_t wgmma" "64 32 32 bf16 64 1 1 b_t wgmma" "64 32 32 bf16 64 1 1 b wgmma"
  "64 96 48 bf16 64 1 1 b wgmma" "64 96 96 f16 64 1 1 b_t wgmma" "64 48 16 bf16 32 1 1 b wgmma" "64 16 48 bf16 32 1 1 b_t wgmma"
  "64 256 64 f16 128 1 1 b wgmma" "64 256 64 bf16 128 1 1 b_t wgmma" "128 128 64 bf16 128 1 2 b wgmma"
  "128 128 64 bf16 128 2 1 b wgmma" "128 64 128 bf16 128 2 1 b_t wgmma" "64 192 128 bf16 128 1 1 b wgmma")

# C K, type, swizzle, warps, factors.
dl_tile_kernels(gram gram dl_gram
  "16 32 bf16 64 1 a" "16 64 bf16 128 4 a" "16 96 f16 64 2 a" "16 128 bf16 0 4 a" "16 256 bf16 128 8 a"
  "32 32 bf16 32 4 a" "32 64 f16 128 2 a" "32 96 bf16 128 4 a" "32 128 bf16 128 4 a" "32 256 bf16 64 1 a"
  "64 32 bf16 128 4 a" "64 64 bf16 128 8 a" "64 96 bf16 64 3 a" "64 128 f16 128 4 a" "64 256 bf16 128 4 a"
  "128 32 f16 64 4 a" "128 64 bf16 0 8 a" "128 96 bf16 32 4 a" "128 128 bf16 128 4 a" "128 256 bf16 128 8 a"
  "48 64 bf16 128 4 a" "112 64 bf16 128 4 a"
  "64 64 bf16 128 4 xa" "32 128 f16 64 2 xa"
  "16 64 bf16 128 2 xya" "32 128 bf16 128 4 xya" "64 96 f16 64 4 xya" "64 256 bf16 128 8 xya")
