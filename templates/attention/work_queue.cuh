// Persistent CTAs draw (tile, head) items from one queue in global memory. One thread draws for its CTA
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
  // Alternates between 0 and 1, also where the ring wraps.
  __device__ inline int turn() const { return (kStages % 2 == 0 ? slot : slot ^ phase) & 1; }
  __device__ inline void wait_full(u64* full) const { mbarrier_wait(&full[slot], phase); }
  __device__ inline void wait_empty(u64* empty) const { mbarrier_wait(&empty[slot], phase ^ 1); }
};

template <class Tile>
struct alignas(16) Item {
  Tile tile;
  i32 head;  // negative: the queue is empty
  i32 reserved[3];
};

// kItemStages are drawn ahead: enough to hide the queue's latency, few enough to leave the last items to
// whoever is free.
template <class Tile>
struct ItemQueue {
  u64 full[kItemStages];
  u64 empty[kItemStages];
  Item<Tile> items[kItemStages];
};

template <class Tile>
__device__ inline void init_item_queue(ItemQueue<Tile>& queue, u32 consumers) {
  for (int i = 0; i < kItemStages; ++i) {
    mbarrier_init(&queue.full[i], 1);
    mbarrier_init(&queue.empty[i], consumers);
  }
}

// The next item, for a role of one thread. Copied, so that its slot is free at once.
template <class Tile>
__device__ inline Item<Tile> take_item(ItemQueue<Tile>& queue, Ring<kItemStages>& ring) {
  ring.wait_full(queue.full);
  const Item<Tile> item = queue.items[ring.slot];
  mbarrier_arrive(&queue.empty[ring.slot]);
  ring.advance();
  return item;
}

// The same for a converged warp, which counts as one consumer.
template <class Tile>
__device__ inline Item<Tile> take_item_by_warp(ItemQueue<Tile>& queue, Ring<kItemStages>& ring) {
  ring.wait_full(queue.full);
  const Item<Tile> item = queue.items[ring.slot];
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&queue.empty[ring.slot]);
  ring.advance();
  return item;
}

// Gives a tile of a ring back: once per warp, when all that read it for this warp is complete.
__device__ inline void release(u64* empty, int slot) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[slot]);
}

// Gives a tile that another role works on back unread. Waits for it first, so that this warp never arrives
// twice in a phase.
template <int kStages>
__device__ inline void pass(u64* full, u64* empty, Ring<kStages>& ring) {
  ring.wait_full(full);
  __syncwarp();
  release(empty, ring.slot);
  ring.advance();
}

// Passes an item on; whole, reserved words and all, since that is how it is taken.
template <class Tile>
__device__ inline void push_item(ItemQueue<Tile>& queue, Ring<kItemStages>& ring, const Tile& tile,
                                 i32 head) {
  ring.wait_empty(queue.empty);
  queue.items[ring.slot] = {tile, head, {}};
  mbarrier_arrive(&queue.full[ring.slot]);
  ring.advance();
}

// The drawing thread's whole life: every tile of the list once per head. Heads are innermost, so that
// neighbouring CTAs read whole rows of the tensors. Whatever an earlier kernel of the call wrote is read only
// by this thread or after it has passed an item on, so that it alone waits for that kernel.
template <class Tile>
__device__ inline void draw_items(ItemQueue<Tile>& queue, const Tile* tiles, const i32* tile_count, i32 heads,
                                  u32* next_item) {
  griddepcontrol_wait();
  const u32 items = static_cast<u32>(*tile_count) * heads;
  Ring<kItemStages> ring;
  bool more = true;
  while (more) {
    const u32 index = atomicAdd(next_item, 1);
    more = index < items;
    ring.wait_empty(queue.empty);
    // Whole items, reserved words and all, since that is how they are taken.
    if (more) {
      queue.items[ring.slot] = {tiles[index / heads], static_cast<i32>(index % heads), {}};
    } else {
      queue.items[ring.slot] = {{}, -1, {}};
    }
    mbarrier_arrive(&queue.full[ring.slot]);
    ring.advance();
  }
}

}  // namespace jfa::kernel
