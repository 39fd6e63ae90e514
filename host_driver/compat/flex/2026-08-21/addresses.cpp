// SPDX-License-Identifier: Apache-2.0
// CompositeAddress and FlexAllocator.
#include <algorithm>
#include <flex/flex.hpp>
#include <sstream>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/context.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"

namespace flex {
namespace {

static_assert(PROG_SEGMENT == wire::kProgramRegion, "segment 7 is the region of programs");

void require_first_domain(const AllocationDirective& directive) {
  const bool others = std::ranges::any_of(directive.domains, [](std::uint32_t domain) { return domain != 0; });
  if (!others && directive.fallback.value_or(0) == 0) return;
  detail::refuse("domains", "a card has one domain, 0", "name that, or none");
}

svp::AllocationPolicy policy_of(const AllocationDirective& directive) {
  require_first_domain(directive);
  svp::AllocationPolicy policy;
  const bool program = directive.type == MemoryType::Program;
  policy.type = program ? svp::RegionType::Program : svp::RegionType::Tensor;
  if (directive.policy == PlacementPolicy::Interleave && !program) policy.placement = svp::Placement::Interleave;
  return policy;
}

}  // namespace

uint64_t dmvaToSegmentId(uint64_t dmva) { return dmva >> SEGMENT_SIZE_BITS; }

CompositeAddress::CompositeAddress() = default;
CompositeAddress::CompositeAddress(Chunk chunk) { chunks_.push_back(chunk); }
CompositeAddress::CompositeAddress(CompositeAddress&& other) noexcept
    : chunks_(std::exchange(other.chunks_, {})), owned_(std::move(other.owned_)) {}
CompositeAddress& CompositeAddress::operator=(CompositeAddress&& other) noexcept {
  CompositeAddress moved(std::move(other));
  std::swap(chunks_, moved.chunks_);
  std::swap(owned_, moved.owned_);
  return *this;
}
CompositeAddress::~CompositeAddress() = default;

const std::vector<Chunk>& CompositeAddress::chunks() const { return chunks_; }

size_t CompositeAddress::total_size() const {
  size_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.size;
  return bytes;
}

std::ostream& operator<<(std::ostream& out, const CompositeAddress& address) {
  // Of its own, so that the caller's flags neither change it nor are changed.
  std::ostringstream text;
  text << "CompositeAddress{total_size=" << address.total_size() << ", num_chunks=" << address.chunks().size()
       << ", owns=" << (detail::Access::owned(address) != nullptr ? "true" : "false") << ", chunks=[";
  const char* separator = "";
  for (const Chunk& chunk : address.chunks()) {
    text << separator << "Chunk{addr=LogicalAddress{region_id=0x" << std::hex << chunk.addr.region_id << ", offset=0x"
         << chunk.addr.offset << std::dec << "}, size=" << chunk.size << ", domain_id=" << chunk.domain_id << "}";
    separator = ", ";
  }
  text << "]}";
  return out << text.str();
}

FlexAllocator::FlexAllocator(std::shared_ptr<detail::Context> context) : context_(std::move(context)) {}
FlexAllocator::~FlexAllocator() = default;

CompositeAddress FlexAllocator::allocate(size_t bytes, const AllocationDirective& directive) {
  return detail::guarded([&]() -> CompositeAddress {
    const auto call = context_->enter();
    const svp::AllocationPolicy policy = policy_of(directive);
    if (bytes > ~std::uint64_t{0} - wire::kStickBytes) {
      throw svp::OutOfMemory("tensor memory", {.requested = bytes}, "ask for less");
    }
    const std::shared_ptr<svp::FlexAllocator>& allocator = call.runtime().shared_allocator();
    const svp::AllocationIndex index = allocator->allocate(wire::align_up(bytes, wire::kStickBytes), policy);
    CompositeAddress result;
    if (index == svp::AllocationIndex::Null) return result;
    auto owned = std::make_shared<detail::Allocation>(context_->memory(), allocator, index);
    context_->memory()->add(owned);
    for (const svp::ResolvedChunk& chunk : owned->memory().chunks()) {
      detail::Access::chunks(result).emplace_back(LogicalAddress(chunk.region_ordinal, chunk.address.offset),
                                                  chunk.bytes, 0U);
    }
    detail::Access::owned(result) = std::move(owned);
    return result;
  });
}

void FlexAllocator::registerMemoryPressureCallback(std::function<void(std::unique_lock<std::mutex>&)> callback) {
  detail::guarded([&] {
    const auto call = context_->enter();
    call.runtime().allocator().set_locked_memory_pressure_callback(std::move(callback));
  });
}

uint64_t FlexAllocator::compositeAddressToDmva(const CompositeAddress& address) const {
  return detail::guarded([&] {
    if (address.chunks().size() != 1) {
      detail::refuse("address", "it has " + std::to_string(address.chunks().size()) + " chunks, and no one address",
                     "give memory of one chunk");
    }
    const LogicalAddress& first = address.chunks().front().addr;
    return first.region_id << SEGMENT_SIZE_BITS | first.offset;
  });
}

}  // namespace flex
