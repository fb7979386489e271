// The images at hand in this process, least recently used out first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "cache/digest.h"
#include "cache/image.h"

namespace jfa {

/// Not thread-safe: its owner locks.
class ImageMemory {
 public:
  explicit ImageMemory(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const KernelImage> get(const Digest& request) {
    const auto found = by_request_.find(request);
    if (found == by_request_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->image;
  }

  void put(const Digest& request, std::shared_ptr<const KernelImage> image) {
    erase(request);
    bytes_ += size_bytes(*image);
    recent_.push_front({request, std::move(image)});
    by_request_[request] = recent_.begin();
    // The newest stays even if it is larger than the bound: somebody just asked for it.
    while (max_bytes_ != 0 && bytes_ > max_bytes_ && recent_.size() > 1) erase(recent_.back().request);
  }

  void erase(Digest request) {
    const auto found = by_request_.find(request);
    if (found == by_request_.end()) return;
    bytes_ -= size_bytes(*found->second->image);
    recent_.erase(found->second);
    by_request_.erase(found);
  }

 private:
  struct Kept {
    Digest request;
    std::shared_ptr<const KernelImage> image;
  };

  static std::uint64_t size_bytes(const KernelImage& image) { return image.cubin.size() + image.ptx.size(); }

  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::list<Kept> recent_;
  std::unordered_map<Digest, std::list<Kept>::iterator> by_request_;
};

}  // namespace jfa
