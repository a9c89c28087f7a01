// Blocks of the KV cache: who holds which, and which ones keep a prefix that a later prompt can
// use.
//
//   BlockPool pool({.blocks = 512, .block_tokens = 16});
//   BlockLease lease = pool.lease(pool.find(prompt));   // what is cached of the prompt
//   pool.extend(lease, 3);                              // and three blocks more
//   pool.publish(lease, computed_tokens);               // full blocks that a step computed
//   lease = {};                                         // all of them go back
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/token_id.h"

namespace nibble::engine {

class BlockPool;

// The blocks of one sequence, in their order. Move-only: dropping it returns them, the last one
// first. It must not outlive its pool.
class BlockLease {
 public:
  BlockLease() = default;
  ~BlockLease() { release(); }
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;

  std::span<const std::int32_t> ids() const { return ids_; }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  void release();

 private:
  friend class BlockPool;
  BlockPool* pool_ = nullptr;
  std::vector<std::int32_t> ids_;
  std::int64_t published_ = 0;  // of the first blocks, that publish() has dealt with
};

// Where a block's content stands in the cache: by its tokens and by the block before it (-1: none).
using BlockHash = std::uint64_t (*)(std::int32_t before, std::span<const text::TokenId> tokens);
std::uint64_t hash_block(std::int32_t before, std::span<const text::TokenId> tokens);

struct BlockPoolOptions {
  std::int64_t blocks = 0;
  std::int64_t block_tokens = 0;
  bool prefix_caching = true;
  BlockHash hash = hash_block;  // a bad one costs hits, never gives wrong content
};

// A block that nobody holds is free; it may still be cached, and is then given away last, the least
// recently used first. A cached block is known by its tokens and the block before it, which is
// cached too: a lease holds whole prefixes and returns its last block first, so that a block is
// given away before the one that it follows.
class BlockPool {
 public:
  explicit BlockPool(const BlockPoolOptions& options);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  std::int64_t blocks() const { return options_.blocks; }
  std::int64_t block_tokens() const { return options_.block_tokens; }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t in_use() const { return blocks() - free(); }
  std::int64_t blocks_for(std::int64_t tokens) const;  // rounded up

  // What is cached of the full blocks that `tokens` begin with.
  struct Prefix {
    std::vector<std::int32_t> ids;
    std::int64_t free = 0;  // of them, held by nobody
  };
  Prefix find(std::span<const text::TokenId> tokens) const;

  // A lease of such blocks; nothing may happen to the pool between find() and lease().
  BlockLease lease(const Prefix& prefix);
  // Adds blocks with unknown content; there must be so many free ones.
  void extend(BlockLease& lease, std::int64_t blocks);
  // Offers the full blocks of `tokens` to later prompts. The lease's keys and values of all of them
  // must have been computed. A block whose content is cached already is exchanged for that one.
  void publish(BlockLease& lease, std::span<const text::TokenId> tokens);
  // Forgets all cached content. Who holds blocks goes on holding them.
  void forget();

  // `held`: the ids of all leases. A sentence for the first thing that is wrong; empty: nothing.
  std::string check_integrity(std::span<const std::int32_t> held) const;

 private:
  friend class BlockLease;
  struct Block {
    std::int32_t holders = 0;
    bool cached = false;
    std::int32_t before = -1;  // these two while it is cached
    std::uint64_t key = 0;
    std::list<std::int32_t>::iterator place;  // in free_ or held_
  };

  Block& at(std::int32_t id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& at(std::int32_t id) const { return blocks_[static_cast<std::size_t>(id)]; }
  std::span<const text::TokenId> content(std::int32_t id) const;
  // The cached block with this content; -1: none. `key` is its hash.
  std::int32_t look_up(std::uint64_t key, std::int32_t before,
                       std::span<const text::TokenId> tokens) const;
  void hold(std::int32_t id);
  void drop(std::int32_t id);
  void uncache(std::int32_t id);
  void publish_one(std::int32_t& id, std::int32_t before, std::span<const text::TokenId> tokens);
  std::string check_free() const;
  std::string check_cached() const;

  BlockPoolOptions options_;
  std::vector<Block> blocks_;
  std::vector<text::TokenId> contents_;  // [blocks, block_tokens], of those that are cached
  std::list<std::int32_t> free_;         // the first one is given away next
  std::list<std::int32_t> held_;
  std::unordered_map<std::uint64_t, std::int32_t> cache_;  // key -> block
};

}  // namespace nibble::engine
