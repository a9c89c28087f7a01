#include "engine/block_pool.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"
#include "base/stats.h"

namespace nibble::engine {

using text::TokenId;

BlockLease::BlockLease(BlockLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      ids_(std::exchange(other.ids_, {})),
      published_(std::exchange(other.published_, 0)) {}

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  ids_ = std::exchange(other.ids_, {});
  published_ = std::exchange(other.published_, 0);
  return *this;
}

void BlockLease::release() {
  for (auto id = ids_.rbegin(); id != ids_.rend(); ++id) pool_->drop(*id);
  ids_.clear();
  published_ = 0;
}

std::uint64_t hash_block(std::int32_t before, std::span<const TokenId> tokens) {
  std::uint64_t hash = static_cast<std::uint32_t>(before);
  for (const TokenId token : tokens) {
    hash = Random(hash ^ static_cast<std::uint32_t>(token)).next();
  }
  return hash;
}

BlockPool::BlockPool(const BlockPoolOptions& options) : options_(options) {
  NIBBLE_CHECK(options.blocks > 0 && options.block_tokens > 0);
  blocks_.resize(static_cast<std::size_t>(options.blocks));
  if (options.prefix_caching) {
    contents_.resize(static_cast<std::size_t>(options.blocks * options.block_tokens));
  }
  for (std::int32_t id = 0; id < options.blocks; ++id) {
    at(id).place = free_.insert(free_.end(), id);
  }
}

std::int64_t BlockPool::blocks_for(std::int64_t tokens) const {
  return (tokens + options_.block_tokens - 1) / options_.block_tokens;
}

std::span<const TokenId> BlockPool::content(std::int32_t id) const {
  const auto size = static_cast<std::size_t>(options_.block_tokens);
  return std::span(contents_).subspan(static_cast<std::size_t>(id) * size, size);
}

std::int32_t BlockPool::look_up(std::uint64_t key, std::int32_t before,
                                std::span<const TokenId> tokens) const {
  const auto found = cache_.find(key);
  if (found == cache_.end() || at(found->second).before != before) return -1;
  const bool same = std::ranges::equal(content(found->second), tokens);
  return same ? found->second : -1;
}

BlockPool::Prefix BlockPool::find(std::span<const TokenId> tokens) const {
  Prefix prefix;
  if (!options_.prefix_caching) return prefix;
  const auto size = static_cast<std::size_t>(options_.block_tokens);
  std::int32_t before = -1;
  for (; tokens.size() >= size; tokens = tokens.subspan(size)) {
    const std::span<const TokenId> block = tokens.first(size);
    before = look_up(options_.hash(before, block), before, block);
    if (before < 0) break;
    prefix.ids.push_back(before);
    if (at(before).holders == 0) ++prefix.free;
  }
  return prefix;
}

BlockLease BlockPool::lease(const Prefix& prefix) {
  BlockLease lease;
  lease.pool_ = this;
  lease.ids_ = prefix.ids;
  lease.published_ = lease.size();
  for (const std::int32_t id : lease.ids_) {
    NIBBLE_CHECK(at(id).cached);
    hold(id);
  }
  return lease;
}

void BlockPool::extend(BlockLease& lease, std::int64_t blocks) {
  NIBBLE_CHECK(lease.pool_ == this && blocks >= 0 && blocks <= free());
  for (; blocks > 0; --blocks) {
    const std::int32_t id = free_.front();
    if (at(id).cached) uncache(id);
    hold(id);
    lease.ids_.push_back(id);
  }
}

void BlockPool::publish(BlockLease& lease, std::span<const TokenId> tokens) {
  if (!options_.prefix_caching) return;
  const auto size = static_cast<std::size_t>(options_.block_tokens);
  const auto full = static_cast<std::int64_t>(tokens.size() / size);
  NIBBLE_CHECK(full <= lease.size());
  while (lease.published_ < full) {
    const auto index = static_cast<std::size_t>(lease.published_++);
    const std::int32_t before = index == 0 ? -1 : lease.ids_[index - 1];
    // What follows a block that is not cached (its hash was taken, or all was forgotten) could not
    // be found.
    if (before >= 0 && !at(before).cached) continue;
    publish_one(lease.ids_[index], before, tokens.subspan(index * size, size));
  }
}

void BlockPool::publish_one(std::int32_t& id, std::int32_t before,
                            std::span<const TokenId> tokens) {
  const std::uint64_t key = options_.hash(before, tokens);
  const std::int32_t known = look_up(key, before, tokens);
  if (known >= 0) {
    hold(known);
    drop(std::exchange(id, known));
    return;
  }
  if (!cache_.emplace(key, id).second) return;  // other content with the same hash came first
  Block& block = at(id);
  NIBBLE_CHECK(!block.cached);
  block.cached = true;
  block.before = before;
  block.key = key;
  std::ranges::copy(tokens, contents_.begin() + id * options_.block_tokens);
}

void BlockPool::forget() {
  for (std::int32_t id = 0; id < blocks(); ++id) {
    if (at(id).cached) uncache(id);
  }
}

void BlockPool::hold(std::int32_t id) {
  Block& block = at(id);
  if (block.holders++ == 0) held_.splice(held_.end(), free_, block.place);
}

void BlockPool::drop(std::int32_t id) {
  Block& block = at(id);
  NIBBLE_CHECK(block.holders > 0);
  if (--block.holders > 0) return;
  free_.splice(block.cached ? free_.end() : free_.begin(), held_, block.place);
}

void BlockPool::uncache(std::int32_t id) {
  Block& block = at(id);
  cache_.erase(block.key);
  block.cached = false;
  block.before = -1;
}

std::string BlockPool::check_integrity(std::span<const std::int32_t> held) const {
  std::vector<std::int32_t> holders(blocks_.size(), 0);
  for (const std::int32_t id : held) ++holders[static_cast<std::size_t>(id)];
  for (std::int32_t id = 0; id < blocks(); ++id) {
    const std::int32_t counted = holders[static_cast<std::size_t>(id)];
    if (at(id).holders != counted) {
      return fmt::format("KV block {} counts {} holders and has {}", id, at(id).holders, counted);
    }
  }
  const std::string fault = check_free();
  return fault.empty() ? check_cached() : fault;
}

std::string BlockPool::check_free() const {
  if (free_.size() + held_.size() != blocks_.size()) {
    return fmt::format("{} free and {} held KV blocks are not the pool's {}", free_.size(),
                       held_.size(), blocks_.size());
  }
  for (const std::int32_t id : free_) {
    if (at(id).holders != 0) return fmt::format("KV block {} is free and has a holder", id);
  }
  for (const std::int32_t id : held_) {
    if (at(id).holders == 0) return fmt::format("KV block {} is held by nobody and not free", id);
  }
  return "";
}

std::string BlockPool::check_cached() const {
  std::size_t cached = 0;
  for (std::int32_t id = 0; id < blocks(); ++id) {
    const Block& block = at(id);
    if (!block.cached) continue;
    ++cached;
    if (look_up(block.key, block.before, content(id)) != id) {
      return fmt::format("KV block {} is cached and cannot be found", id);
    }
    if (block.before < 0) continue;
    const Block& before = at(block.before);
    if (!before.cached || before.holders < block.holders) {
      return fmt::format("KV block {} outlives block {}, which it follows", id, block.before);
    }
  }
  if (cached != cache_.size()) {
    return fmt::format("{} KV blocks are cached, and {} entries lead to them", cached,
                       cache_.size());
  }
  return "";
}

}  // namespace nibble::engine
