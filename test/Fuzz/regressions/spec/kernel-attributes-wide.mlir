// An integer of more than 64 bits.
tile.kernel @wide(%x: memref<?xf32, strided<[1]>> {tile.shape = [1180591620717411303424 : i128]}) attributes {threads = 32 : i64} {
  tile.return
}
