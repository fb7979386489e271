// The prepare entry: one CTA turns the offsets into the work list.
extern "C" __global__ void __launch_bounds__(jfa::kernel::config::Prepare::kThreads,
                                             jfa::kernel::config::Prepare::kCtas)
    jfa_prepare(const __grid_constant__ jfa::kernel::PrepareArguments a) {
  using namespace jfa::kernel;
  griddepcontrol_launch_dependents();  // the main entry sets itself up meanwhile
  __shared__ u64 first_bad;
  __shared__ CostOrder order;
  __shared__ KeyParts parts;
  if (threadIdx.x == 0) parts = {};
  order.clear();
  if (!offsets_are_good(a, &first_bad)) return;
  if (a.part_capacity > 0) {
    list_parts(a, order, parts);
    return;
  }
  auto cost_of = [](const Sequence& s) { return cost_bucket(streamed_key_tiles(s)); };
  for_each_sequence(a, [&](const Sequence& s) { order.count(cost_of(s), tiles_of(s.query_rows)); });
  order.order_by_cta(&a.header->tile_count);
  for_each_sequence(a, [&](const Sequence& s) {
    i32 place = order.place(cost_of(s), tiles_of(s.query_rows));
    for_each_tile(s, [&](const QueryTile& tile) { a.tiles[place++] = tile; });
  });
}
