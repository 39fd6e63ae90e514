// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/stream_records.hpp"

#include <algorithm>

#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

void ChannelLink::keep(std::unique_ptr<RecordedUse> use) noexcept {
  if (!process_.is_this()) return;
  const std::scoped_lock lock(mutex_);
  if (channel_ != nullptr) channel_->keep_until_ended(std::move(use));
}

void ChannelLink::cut() noexcept {
  const std::scoped_lock lock(mutex_);
  channel_ = nullptr;
}

bool ChannelLink::is_cut() noexcept {
  const std::scoped_lock lock(mutex_);
  return channel_ == nullptr;
}

void StreamRecords::add(const FlexStream& stream, const std::shared_ptr<FlexAllocator>& allocator,
                        AllocationIndex index) {
  if (stream.allocator() != allocator) {
    throw InvalidArgument("stream", "the stream belongs to another context than the memory",
                          "record a stream of the context that allocated it");
  }
  if (index == AllocationIndex::Null) return;
  const auto& link = stream.link();
  const std::scoped_lock lock(mutex_);
  if (std::ranges::any_of(records_, [&](const Record& record) { return record.stream == link; })) return;
  auto use = std::make_unique<RecordedUse>();
  if (!allocator->try_use_chunks(index, use->uses)) allocator->refuse(index, "memory", ": ");
  records_.push_back({link, std::move(use)});
}

StreamRecords::~StreamRecords() {
  for (Record& record : records_) record.stream->keep(std::move(record.use));
}

}  // namespace svp
