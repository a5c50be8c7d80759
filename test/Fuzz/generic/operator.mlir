// examples/kda.mlir in the generic form, in which ops are built without their own parsers.
!key = tensor<?xf32, #linattn.of<key, key_head>>
!key_per_value_head = tensor<?xf32, #linattn.of<key, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
"builtin.module"() ({
  "linattn.operator"() <{arg_attrs = [{}, {}, {}, {}, {linattn.dtype = f32}, {}, {}, {}, {}, {linattn.default = "key_dim^-0.5"}, {}], input_names = ["q", "k", "v", "a", "g", "b", "beta"], options = {beta = ["logit", "value"], beta_factor = #linattn.number<1.0 from 1.0 to 2.0>, gate = ["softplus", "bounded", "precomputed"], lower_bound = #linattn.number<-5.0 from -5.0 below 0.0>, normalize = true}, output_names = ["o"], output_types = [!value], param_names = ["A_log", "dt_bias", "scale"], state_names = ["S"], sym_name = "kda"}> ({
  ^bb0(%arg0: !key, %arg1: !key, %arg2: !value, %arg3: !key_per_value_head, %arg4: !key_per_value_head, %arg5: !per_head, %arg6: !per_head, %arg7: !per_head, %arg8: !key_per_value_head, %arg9: f32, %arg10: !linattn.state):
    %0 = "linattn.switch"() <{cases = ["softplus", "bounded", "precomputed"], option = "gate"}> ({
      %27 = "arith.addf"(%arg3, %arg8) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head, !key_per_value_head) -> !key_per_value_head
      %28 = "linattn.softplus"(%27) : (!key_per_value_head) -> !key_per_value_head
      %29 = "math.exp"(%arg7) <{fastmath = #arith.fastmath<none>}> : (!per_head) -> !per_head
      %30 = "linattn.broadcast"(%29) : (!per_head) -> !key_per_value_head
      %31 = "arith.mulf"(%30, %28) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head, !key_per_value_head) -> !key_per_value_head
      %32 = "arith.negf"(%31) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head) -> !key_per_value_head
      %33 = "linattn.decay"(%arg10, %32) : (!linattn.state, !key_per_value_head) -> !linattn.state
      "linattn.yield"(%33) : (!linattn.state) -> ()
    }, {
      %18 = "arith.addf"(%arg3, %arg8) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head, !key_per_value_head) -> !key_per_value_head
      %19 = "math.exp"(%arg7) <{fastmath = #arith.fastmath<none>}> : (!per_head) -> !per_head
      %20 = "linattn.broadcast"(%19) : (!per_head) -> !key_per_value_head
      %21 = "arith.mulf"(%20, %18) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head, !key_per_value_head) -> !key_per_value_head
      %22 = "linattn.sigmoid"(%21) : (!key_per_value_head) -> !key_per_value_head
      %23 = "linattn.option"() <{option = "lower_bound"}> : () -> f32
      %24 = "linattn.broadcast"(%23) : (f32) -> !key_per_value_head
      %25 = "arith.mulf"(%24, %22) <{fastmath = #arith.fastmath<none>}> : (!key_per_value_head, !key_per_value_head) -> !key_per_value_head
      %26 = "linattn.decay"(%arg10, %25) <{bound = "lower_bound"}> : (!linattn.state, !key_per_value_head) -> !linattn.state
      "linattn.yield"(%26) : (!linattn.state) -> ()
    }, {
      %17 = "linattn.decay"(%arg10, %arg4) : (!linattn.state, !key_per_value_head) -> !linattn.state
      "linattn.yield"(%17) : (!linattn.state) -> ()
    }) : () -> !linattn.state
    %1:2 = "linattn.switch"() <{cases = ["true", "false"], option = "normalize"}> ({
      %15 = "linattn.l2norm"(%arg0) : (!key) -> !key
      %16 = "linattn.l2norm"(%arg1) : (!key) -> !key
      "linattn.yield"(%15, %16) : (!key, !key) -> ()
    }, {
      "linattn.yield"(%arg0, %arg1) : (!key, !key) -> ()
    }) : () -> (!key, !key)
    %2 = "linattn.switch"() <{cases = ["logit", "value"], option = "beta"}> ({
      %11 = "linattn.sigmoid"(%arg5) : (!per_head) -> !per_head
      %12 = "linattn.option"() <{option = "beta_factor"}> : () -> f32
      %13 = "linattn.broadcast"(%12) : (f32) -> !per_head
      %14 = "arith.mulf"(%11, %13) <{fastmath = #arith.fastmath<none>}> : (!per_head, !per_head) -> !per_head
      "linattn.yield"(%14) : (!per_head) -> ()
    }, {
      "linattn.yield"(%arg6) : (!per_head) -> ()
    }) : () -> !per_head
    %3 = "linattn.read"(%0, %1#1) : (!linattn.state, !key) -> !value
    %4 = "arith.subf"(%arg2, %3) <{fastmath = #arith.fastmath<none>}> : (!value, !value) -> !value
    %5 = "linattn.broadcast"(%2) : (!per_head) -> !value
    %6 = "arith.mulf"(%5, %4) <{fastmath = #arith.fastmath<none>}> : (!value, !value) -> !value
    %7 = "linattn.write"(%0, %1#1, %6) : (!linattn.state, !key, !value) -> !linattn.state
    %8 = "linattn.read"(%7, %1#0) : (!linattn.state, !key) -> !value
    %9 = "linattn.broadcast"(%arg9) : (f32) -> !value
    %10 = "arith.mulf"(%9, %8) <{fastmath = #arith.fastmath<none>}> : (!value, !value) -> !value
    "linattn.yield"(%7, %10) : (!linattn.state, !value) -> ()
  }) : () -> ()
}) : () -> ()
