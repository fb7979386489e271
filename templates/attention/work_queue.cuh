// Persistent CTAs draw (query tile, head) items from one queue in global memory. One thread draws for its CTA
// and passes the items on through a ring in shared memory, so that every role may run ahead of the slowest.
namespace jfa::kernel {

// Where a role stands in a ring of kStages slots whose full and empty barriers alternate phases.
template <int kStages>
struct Ring {
  int slot = 0;
  u32 phase = 0;

  __device__ inline void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
  __device__ inline void wait_full(u64* full) const { mbarrier_wait(&full[slot], phase); }
  __device__ inline void wait_empty(u64* empty) const { mbarrier_wait(&empty[slot], phase ^ 1); }
};

struct alignas(16) Item {
  QueryTile tile;
  i32 head;  // query head; negative: the queue is empty
  i32 reserved[3];
};

constexpr int kItemStages = 4;

struct ItemQueue {
  u64 full[kItemStages];
  u64 empty[kItemStages];
  Item items[kItemStages];
};

__device__ inline void init_item_queue(ItemQueue& queue, u32 consumers) {
  for (int i = 0; i < kItemStages; ++i) {
    mbarrier_init(&queue.full[i], 1);
    mbarrier_init(&queue.empty[i], consumers);
  }
}

// The next item, for a role of one thread. Copied, so that its slot is free at once.
__device__ inline Item take_item(ItemQueue& queue, Ring<kItemStages>& ring) {
  ring.wait_full(queue.full);
  const Item item = queue.items[ring.slot];
  mbarrier_arrive(&queue.empty[ring.slot]);
  ring.advance();
  return item;
}

// The same for a converged warp, which counts as one consumer.
__device__ inline Item take_item_by_warp(ItemQueue& queue, Ring<kItemStages>& ring) {
  ring.wait_full(queue.full);
  const Item item = queue.items[ring.slot];
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&queue.empty[ring.slot]);
  ring.advance();
  return item;
}

// The drawing thread's whole life. Heads are innermost: neighbouring CTAs then read whole rows of the
// tensors.
__device__ inline void draw_items(ItemQueue& queue, const ForwardArguments& arguments) {
  const u32 items = static_cast<u32>(arguments.header->tile_count) * arguments.query_heads;
  Ring<kItemStages> ring;
  bool more = true;
  while (more) {
    const u32 index = atomicAdd(&arguments.header->next_item, 1);
    more = index < items;
    ring.wait_empty(queue.empty);
    Item& item = queue.items[ring.slot];
    if (more) {
      item.tile = arguments.tiles[index / arguments.query_heads];
      item.head = static_cast<i32>(index % arguments.query_heads);
    } else {
      item.head = -1;
    }
    mbarrier_arrive(&queue.full[ring.slot]);
    ring.advance();
  }
}

}  // namespace jfa::kernel
