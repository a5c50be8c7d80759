// No element type in front of an encoding.
!per_head = tensor<, #linattn.of<scalar, value_head>>
