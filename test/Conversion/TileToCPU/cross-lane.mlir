// RUN: dl-opt %s --convert-tile-to-cpu --cse --split-input-file | FileCheck %s

// A sum over 192 columns: 6 registers, 8 lanes by a butterfly of 3 steps, 4 warps in order.

#m = #tile.blocked<per_thread = [1, 3], lanes = [4, 8], warps = [1, 4], order = [1, 0], num_warps = 4>
!m = memref<4x192xf32, strided<[192, 1]>>

// CHECK-LABEL: llvm.func @reduce(
tile.kernel @reduce(%x: !m, %y: memref<4xf32, strided<[1]>>) attributes {threads = 128 : i64} {
  // CHECK-DAG:  %[[NOTHING:.+]] = arith.constant -0.000000e+00 : f32
  // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : i64
  // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i64
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C6:.+]] = arith.constant 6 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : !m -> tensor<4x192xf32, #m>
  // CHECK:      scf.for
  // CHECK:        scf.for
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK:        %[[SUM:.+]] = scf.for %[[K:.+]] = %{{.+}} to %[[C6]] {{.*}} iter_args(%[[S:.+]] = %[[NOTHING]])
  // CHECK:          %[[NEXT:.+]] = arith.addf %[[S]],
  // CHECK:          scf.yield %[[NEXT]]
  // CHECK:        llvm.store %[[SUM]]
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK:        arith.xori %[[T]], %[[C1]]
  // CHECK:        arith.addf
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK:        arith.xori %[[T]], %[[C2]]
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK:        arith.xori %[[T]], %[[C4]]
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK:        %[[W:.+]] = arith.divui %[[T]], %[[C32]]
  // CHECK:        %[[W32:.+]] = arith.muli %[[W]], %[[C32]]
  // CHECK:        %[[LANE:.+]] = arith.subi %[[T]], %[[W32]]
  // CHECK:        scf.for %{{.+}} = %{{.+}} to %[[C4]]
  // CHECK:          arith.addf
  %s = tile.reduce %a axis 1 : tensor<4x192xf32, #m> -> tensor<4xf32, #tile.slice<1, #m>>
  tile.store %s, %y[%c0] axes [0] : tensor<4xf32, #tile.slice<1, #m>>, memref<4xf32, strided<[1]>>
  tile.return
}

// -----

// A scalar is taken from the first thread. Places from 40 on count as zero.

#v = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>

// CHECK-LABEL: llvm.func @scalar(
tile.kernel @scalar(%x: memref<40xf32, strided<[1]>>, %y: memref<1xf32, strided<[1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  // CHECK-DAG:  %[[C40:.+]] = arith.constant 40 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0] axes [0] : memref<40xf32, strided<[1]>> -> tensor<40xf32, #v>
  // CHECK:      iter_args
  // CHECK:        %[[IN:.+]] = arith.cmpi ult, %{{.+}}, %[[C40]]
  // CHECK:        %[[V:.+]] = arith.select %[[IN]], %{{.+}}, %[[ZERO]]
  // CHECK:        arith.addf %{{.+}}, %[[V]]
  // CHECK:        arith.xori %{{.+}}, %[[C16]]
  // CHECK:        llvm.store
  // CHECK:      %[[S:.+]] = llvm.load %{{.+}} -> f32
  // CHECK-NEXT: llvm.store %[[S]]
  %s = tile.reduce %a axis 0 : tensor<40xf32, #v> -> f32
  memref.store %s, %y[%c0] : memref<1xf32, strided<[1]>>
  tile.return
}

// -----

// Two vectors share the pass over the matrix.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>
#k = #tile.slice<1, #m>
#o = #tile.slice<0, #m>

// CHECK-LABEL: llvm.func @dot(
tile.kernel @dot(%x: memref<4x32xf32, strided<[32, 1]>>, %y: memref<32xf32, strided<[1]>>, %f: f32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<4x32xf32, strided<[32, 1]>> -> tensor<4x32xf32, #m>
  %k = tile.splat %f : f32 -> tensor<4xf32, #k>
  // CHECK:      %[[SUMS:.+]]:2 = scf.for %{{.+}} iter_args(%[[S0:.+]] = %{{.+}}, %[[S1:.+]] = %{{.+}}) -> (f32, f32)
  // CHECK:        %[[N0:.+]] = math.fma %{{.+}}, %{{.+}}, %[[S0]]
  // CHECK:        %[[N1:.+]] = math.fma %{{.+}}, %{{.+}}, %[[S1]]
  // CHECK:        scf.yield %[[N0]], %[[N1]]
  %r, %q = tile.dot %k, %k with %a axis 0 : tensor<4xf32, #k>, tensor<4xf32, #k> with tensor<4x32xf32, #m>
      -> tensor<32xf32, #o>, tensor<32xf32, #o>
  %p = arith.addf %r, %q : tensor<32xf32, #o>
  tile.store %p, %y[%c0] axes [0] : tensor<32xf32, #o>, memref<32xf32, strided<[1]>>
  tile.return
}

// -----

// A second part goes on with the sums of the first.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>
#n = #tile.blocked<per_thread = [2, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @two_parts(
tile.kernel @two_parts(%x: memref<4x32xf32, strided<[32, 1]>>, %y: memref<32xf32, strided<[1]>>, %f: f32) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i64
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<4x32xf32, strided<[32, 1]>> -> tensor<4x32xf32, #m>
  %b = tile.load %x[%c0, %c0] axes [0, 1] : memref<4x32xf32, strided<[32, 1]>> -> tensor<2x32xf32, #n>
  %k = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #m>>
  %w = tile.splat %f : f32 -> tensor<2xf32, #tile.slice<1, #n>>
  // CHECK:      %[[SUM:.+]] = scf.for %{{.+}} = %{{.+}} to %[[C4]] {{.*}} iter_args(%{{.+}} = %[[ZERO]]) -> (f32)
  // CHECK:        math.fma
  // CHECK:      llvm.store %[[SUM]], %{{.+}} {alignment = 4
  // CHECK:      %[[START:.+]] = llvm.load
  // CHECK:      %[[ALL:.+]] = scf.for %{{.+}} = %{{.+}} to %[[C2]] {{.*}} iter_args(%{{.+}} = %[[START]]) -> (f32)
  // CHECK:        math.fma
  // CHECK:      llvm.store %[[ALL]],
  %r = tile.dot %k with %a and %w with %b axis 0 : tensor<4xf32, #tile.slice<1, #m>> with tensor<4x32xf32, #m>
      and tensor<2xf32, #tile.slice<1, #n>> with tensor<2x32xf32, #n> -> tensor<32xf32, #tile.slice<0, #m>>
  tile.store %r, %y[%c0] axes [0] : tensor<32xf32, #tile.slice<0, #m>>, memref<32xf32, strided<[1]>>
  tile.return
}

// -----

// From neighbours in pairs to a stride of 32: element c is in register c % 2 of thread c / 2.

#a = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>
#b = #tile.blocked<per_thread = [1], lanes = [32], warps = [1], order = [0], num_warps = 1>

// CHECK-LABEL: llvm.func @convert(
tile.kernel @convert(%x: memref<64xf32, strided<[1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0] axes [0] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #a>
  // CHECK:      scf.for
  // CHECK:        scf.for
  // CHECK:      scf.for %[[T:[^ ]+]] =
  // CHECK:        scf.for %[[R:[^ ]+]] =
  // CHECK:          %[[R32:.+]] = arith.muli %[[R]], %[[C32]]
  // CHECK:          %[[C:.+]] = arith.addi %[[T]], %[[R32]]
  // CHECK:          %[[REG:.+]] = arith.remui %[[C]], %[[C2]]
  // CHECK:          %[[THREAD:.+]] = arith.divui %[[C]], %[[C2]]
  // CHECK:          %[[ROW:.+]] = arith.muli %[[THREAD]], %[[C2]]
  // CHECK:          %[[FROM:.+]] = arith.addi %[[REG]], %[[ROW]]
  // CHECK:          llvm.getelementptr %{{.+}}[%[[FROM]]]
  %b = tile.convert %a : tensor<64xf32, #a> -> tensor<64xf32, #b>
  tile.store %b, %x[%c0] axes [0] : tensor<64xf32, #b>, memref<64xf32, strided<[1]>>
  tile.return
}

// -----

// One element of C at a time; k runs over the tensor's 12 columns, not over the instruction's 16.

#fa = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#fb = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#fc = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>

// CHECK-LABEL: llvm.func @mma(
tile.kernel @mma(%x: memref<16x12xbf16, strided<[12, 1]>>, %y: memref<12x8xbf16, strided<[8, 1]>>,
                 %z: memref<16x8xf32, strided<[8, 1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C12:.+]] = arith.constant 12 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x12xbf16, strided<[12, 1]>> -> tensor<16x12xbf16, #fa>
  %b = tile.load %y[%c0, %c0] axes [0, 1] : memref<12x8xbf16, strided<[8, 1]>> -> tensor<12x8xbf16, #fb>
  %c = arith.constant dense<0.0> : tensor<16x8xf32, #fc>
  // CHECK:      scf.for %{{.+}} = %{{.+}} to %[[C32]]
  // CHECK:        scf.for %{{.+}} = %{{.+}} to %[[C4]]
  // CHECK:          scf.for %{{.+}} = %{{.+}} to %[[C12]] {{.*}} iter_args(%[[S:.+]] =
  // CHECK:            math.fma %{{.+}}, %{{.+}}, %[[S]]
  %d = tile.mma %a, %b, %c : tensor<16x12xbf16, #fa>, tensor<12x8xbf16, #fb>, tensor<16x8xf32, #fc>
  tile.store %d, %z[%c0, %c0] axes [0, 1] : tensor<16x8xf32, #fc>, memref<16x8xf32, strided<[8, 1]>>
  tile.return
}

// -----

// A row is chosen element by element.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @insert(
tile.kernel @insert(%x: memref<4x32xf32, strided<[32, 1]>>, %y: memref<32xf32, strided<[1]>>, %n: i32) attributes {threads = 32 : i64} {
  // CHECK:      %[[ROW:.+]] = arith.extsi %{{.+}} : i32 to i64
  // CHECK:      scf.for %[[T:[^ ]+]] =
  // CHECK:        scf.for %[[R:[^ ]+]] =
  // CHECK:          %[[HIT:.+]] = arith.cmpi eq, %[[R]], %[[ROW]] : i64
  // CHECK:          arith.select %[[HIT]], %{{.+}}, %{{.+}} : f32
  %c0 = arith.constant 0 : index
  %m = tile.load %x[%c0, %c0] axes [0, 1] : memref<4x32xf32, strided<[32, 1]>> -> tensor<4x32xf32, #m>
  %v = tile.load %y[%c0] axes [0] : memref<32xf32, strided<[1]>> -> tensor<32xf32, #tile.slice<0, #m>>
  %r = tile.insert %v into %m[%n] axis 0 : tensor<32xf32, #tile.slice<0, #m>> into tensor<4x32xf32, #m>
  tile.store %r, %x[%c0, %c0] axes [0, 1] : tensor<4x32xf32, #m>, memref<4x32xf32, strided<[32, 1]>>
  tile.return
}

// -----

// One element at a time, over as many rows as there are.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @update(
tile.kernel @update(%x: memref<6x32xf32, strided<[32, 1]>>, %y: memref<4x32xf32, strided<[32, 1]>>, %n: i32) attributes {threads = 32 : i64} {
  // CHECK:      %[[COUNT:.+]] = arith.extsi %{{.+}} : i32 to i64
  // CHECK:      %[[END:.+]] = arith.minsi %[[COUNT]], %{{.+}} : i64
  // CHECK:      scf.for %[[T:[^ ]+]] =
  // CHECK:        scf.for %[[R:[^ ]+]] =
  // CHECK:          %[[SUM:.+]] = scf.for %[[I:[^ ]+]] = %{{.+}} to %[[END]] {{.*}} iter_args(%[[S:.+]] =
  // CHECK:            %[[NEXT:.+]] = math.fma %{{.+}}, %{{.+}}, %[[S]]
  // CHECK:            scf.yield %[[NEXT]]
  // CHECK:          llvm.store %[[SUM]]
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<6x32xf32, strided<[32, 1]>> -> tensor<6x4xf32, #m>
  %b = tile.load %x[%c0, %c0] axes [0, 1] : memref<6x32xf32, strided<[32, 1]>> -> tensor<6x32xf32, #m>
  %c = tile.load %y[%c0, %c0] axes [0, 1] : memref<4x32xf32, strided<[32, 1]>> -> tensor<4x32xf32, #m>
  %d = tile.rank_update %a, %b, %c count %n : tensor<6x4xf32, #m>, tensor<6x32xf32, #m>, tensor<4x32xf32, #m>
  tile.store %d, %y[%c0, %c0] axes [0, 1] : tensor<4x32xf32, #m>, memref<4x32xf32, strided<[32, 1]>>
  tile.return
}
