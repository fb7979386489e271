// The accesses of a place besides its last write: readers since, and older writers that a later access may
// still race with. Mostly none or one, so that a place holds one and a number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace jfa::simulator {

/// Record: has tick (0: none), lanes, bytes, same_kind(other) and stands_for_earlier(other), see add().
template <class Record>
class OtherRecords {
 public:
  /// What a place holds. Zero bytes are an empty one.
  struct Place {
    Record only;             // the only one …
    std::uint32_t list = 0;  // … or index + 1 into lists_
  };

  /// The first that `matches`, or null.
  template <class Matches>
  const Record* find(const Place& place, Matches matches) const {
    if (place.list == 0) return matches(place.only) ? &place.only : nullptr;
    const std::vector<Record>& list = lists_[place.list - 1];
    const auto found = std::find_if(list.begin(), list.end(), matches);
    return found == list.end() ? nullptr : &*found;
  }

  /// Takes the place of one that it is at least as hard to be ordered after as: of the same kind of access
  /// (Record::same_kind), and made together with it or behind it (Record::stands_for_earlier). `synced`: up
  /// to that tick the lanes of its warp are ordered before it.
  void add(Place& place, const Record& record, std::uint32_t synced) {
    const auto merge = [&](Record& old) {
      if (old.tick == 0) {
        old = record;
        return true;
      }
      if (!record.same_kind(old)) return false;
      if (old.tick == record.tick && (old.lanes == record.lanes || old.bytes == record.bytes)) {
        old.lanes |= record.lanes;
        old.bytes |= record.bytes;
        return true;
      }
      if (!record.stands_for_earlier(old, synced) || (old.bytes & ~record.bytes) != 0) return false;
      old = record;
      return true;
    };
    if (place.list == 0) {
      if (merge(place.only)) return;
      take_list(place);
      list_of(place).push_back(place.only);
    }
    for (Record& old : list_of(place))
      if (merge(old)) return;
    list_of(place).push_back(record);
  }

  /// Forgets what those that match did to these bytes.
  template <class Matches>
  void cut(Place& place, unsigned bytes, Matches matches) {
    const auto without = [&](Record& old) {
      if ((old.bytes & bytes) == 0 || !matches(old)) return false;
      old.bytes &= ~bytes;
      return old.bytes == 0;
    };
    if (place.list != 0)
      std::erase_if(list_of(place), without);
    else if (without(place.only))
      place.only = Record{};
  }

  /// Forgets those that match, if the list is about to grow.
  template <class Matches>
  void thin(Place& place, Matches matches) {
    if (place.list == 0) return;
    std::vector<Record>& list = list_of(place);
    if (list.size() < list.capacity()) return;
    std::erase_if(list, matches);
    if (list.size() > list.capacity() / 2) list.reserve(2 * list.capacity());
  }

  void forget(Place& place) {
    place.only = Record{};
    if (place.list == 0) return;
    list_of(place).clear();
    free_.push_back(std::exchange(place.list, 0));
  }

  /// `to` is empty.
  void copy(const Place& from, Place& to) {
    to.only = from.only;
    if (from.list == 0) return;
    take_list(to);
    list_of(to) = list_of(from);
  }

 private:
  std::vector<Record>& list_of(const Place& place) { return lists_[place.list - 1]; }
  // Gives the place an empty list.
  void take_list(Place& place) {
    if (free_.empty()) {
      lists_.emplace_back();
      free_.push_back(static_cast<std::uint32_t>(lists_.size()));
    }
    place.list = free_.back();
    free_.pop_back();
  }

  std::vector<std::vector<Record>> lists_;
  std::vector<std::uint32_t> free_;  // index + 1
};

}  // namespace jfa::simulator
