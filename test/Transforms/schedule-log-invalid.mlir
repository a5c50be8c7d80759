// RUN: not dl-opt %s --linattn-schedule-log="kernel=decode" 2>&1 | FileCheck %s --check-prefix=KERNEL
// RUN: not dl-opt %s --linattn-schedule-log="window=0" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not dl-opt %s --linattn-schedule-log="window=1025" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not dl-opt %s --linattn-schedule-log="max-tokens=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not dl-opt %s --linattn-schedule-log="max-tokens=17" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not dl-opt %s --linattn-schedule-log="log-type=f16" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not dl-opt %s --linattn-schedule-log="index-type=i16" 2>&1 | FileCheck %s --check-prefix=INDEX

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// KERNEL: [[@LINE+7]]:1: error: kernel: expected plan, append, merge or materialize, got 'decode'
// SMALL:  [[@LINE+6]]:1: error: window: expected 1 to 1024, got 0
// LARGE:  [[@LINE+5]]:1: error: window: expected 1 to 1024, got 1025
// NONE:   [[@LINE+4]]:1: error: max-tokens: expected 1 to 16, got 0
// MANY:   [[@LINE+3]]:1: error: max-tokens: expected 1 to 16, got 17
// TYPE:   [[@LINE+2]]:1: error: log-type: expected f32 or bf16, got 'f16'
// INDEX:  [[@LINE+1]]:1: error: index-type: expected i32 or i64, got 'i16'
linattn.operator @linear(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}
