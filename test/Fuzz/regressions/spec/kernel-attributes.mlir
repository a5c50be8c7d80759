// Attributes that a manifest cannot hold.
tile.kernel @types(%x: memref<?xf32, strided<[1]>> {tile.shape = [f32]}) attributes {threads = 32 : i64} {
  tile.return
}
