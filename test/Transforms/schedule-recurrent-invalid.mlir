// RUN: not dl-opt %s --linattn-schedule-recurrent="key-dim=12" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not dl-opt %s --linattn-schedule-recurrent="key-dim=260" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not dl-opt %s --linattn-schedule-recurrent="value-dim=66" 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not dl-opt %s --linattn-schedule-recurrent="state-layout=kk" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not dl-opt %s --linattn-schedule-recurrent="state-type=f64" 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not dl-opt %s --linattn-schedule-recurrent="io-type=i8" 2>&1 | FileCheck %s --check-prefix=IO
// RUN: not dl-opt %s --linattn-schedule-recurrent="value-tile=48" 2>&1 | FileCheck %s --check-prefix=TILE
// RUN: not dl-opt %s --linattn-schedule-recurrent="value-tile=20 state-layout=vk" 2>&1 | FileCheck %s --check-prefix=TILEVK
// RUN: not dl-opt %s --linattn-schedule-recurrent="value-tile=2048" 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: not dl-opt %s --linattn-schedule-recurrent="value-tile=64" 2>&1 | FileCheck %s --check-prefix=ALONG
// RUN: not dl-opt %s --linattn-schedule-recurrent="key-lanes=5" 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: not dl-opt %s --linattn-schedule-recurrent="key-lanes=8 state-layout=vk" 2>&1 | FileCheck %s --check-prefix=LANESVK
// RUN: not dl-opt %s --linattn-schedule-recurrent="key-warps=33" 2>&1 | FileCheck %s --check-prefix=KEYWARPS
// RUN: not dl-opt %s --linattn-schedule-recurrent="key-warps=2 state-layout=vk" 2>&1 | FileCheck %s --check-prefix=KEYWARPSVK
// RUN: not dl-opt %s --linattn-schedule-recurrent="index-type=i16" 2>&1 | FileCheck %s --check-prefix=INDEX
// RUN: not dl-opt %s --linattn-schedule-recurrent="types=k=f64" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not dl-opt %s --linattn-schedule-recurrent="types=nobody=f32" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not dl-opt %s --linattn-schedule-recurrent="bytes-in-flight=0" 2>&1 | FileCheck %s --check-prefix=BYTES

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// INDEX:      error: index-type: expected i32 or i64, got 'i16'
// TYPE:       error: types, k: expected f32, bf16 or f16, got 'f64'
// NAME:       error: types: expected NAME=TYPE with a name among k, v, o, got 'nobody=f32'
// BYTES:      error: bytes in flight: expected a positive number, got 0
// SMALL:      [[@LINE+14]]:1: error: key dimension: expected a multiple of 4 from 16 to 256, got 12
// LARGE:      [[@LINE+13]]:1: error: key dimension: expected a multiple of 4 from 16 to 256, got 260
// ODD:        [[@LINE+12]]:1: error: value dimension: expected a multiple of 4 from 16 to 256, got 66
// LAYOUT:     [[@LINE+11]]:1: error: state-layout: expected kv or vk, got 'kk'
// STATE:      [[@LINE+10]]:1: error: state-type: expected f32, bf16 or f16, got 'f64'
// IO:         [[@LINE+9]]:1: error: io-type: expected f32, bf16 or f16, got 'i8'
// TILE:       [[@LINE+8]]:1: error: value tile: the step sums along V, so expected at least 128, got 48
// TILEVK:     [[@LINE+7]]:1: error: value tile: the step sums along V, so expected at least 128, got 20
// ALONG:      [[@LINE+6]]:1: error: value tile: the step sums along V, so expected at least 128, got 64
// WARPS:      [[@LINE+5]]:1: error: value tile: 2048 columns take 64 warps, expected at most 32
// LANES:      [[@LINE+4]]:1: error: key lanes: expected a power of two up to 32 and the state layout kv, got 5
// LANESVK:    [[@LINE+3]]:1: error: key lanes: expected a power of two up to 32 and the state layout kv, got 8
// KEYWARPS:   [[@LINE+2]]:1: error: key warps: expected 1 to 32 and the state layout kv (with vk, warps split V only), got 33
// KEYWARPSVK: [[@LINE+1]]:1: error: key warps: expected 1 to 32 and the state layout kv (with vk, warps split V only), got 2
linattn.operator @along(%k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %read = linattn.read %S, %k : !key -> !value
  %sum = linattn.reduce %read : !value -> !per_head
  %o = linattn.broadcast %sum : !per_head -> !value
  %S1 = linattn.write %S, %k, %v : !key, !value
  linattn.yield %S1, %o : !linattn.state, !value
}
