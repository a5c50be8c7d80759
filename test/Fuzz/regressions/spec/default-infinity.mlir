// Beyond all numbers for every key dimension.
!value = tensor<?xf32, #linattn.of<value, value_head>>
!key = tensor<?xf32, #linattn.of<key, key_head>>
linattn.operator @f(%v: !value, %k: !key) params(%scale: f32 {linattn.default = "key_dim^1e9"}) state(%S: !linattn.state) -> (o: !value) {
  %c = arith.addf %scale, %scale : f32
  %b = linattn.broadcast %c : f32 -> !value
  %m = arith.minimumf %b, %v : !value
  %S1 = linattn.write %S, %k, %v : !key, !value
  linattn.yield %S1, %m : !linattn.state, !value
}
