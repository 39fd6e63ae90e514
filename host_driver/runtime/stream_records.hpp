// SPDX-License-Identifier: Apache-2.0
// torch.Tensor.record_stream(): a storage's list of streams that use its memory without naming it in a launch, because
// its address was handed to them in another way. What is released is kept for what those streams have under way then.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "host_driver/base/process.hpp"
#include "host_driver/runtime/recorded_use.hpp"

namespace svp {

class FlexStream;
class StreamChannel;

// A stream for those that may outlive it.
class ChannelLink {
 public:
  explicit ChannelLink(StreamChannel& channel) : channel_(&channel) {}

  // Keeps it until everything that has been launched on the stream has ended. Lets go at once when that is so already,
  // and when the stream is gone.
  void keep(std::unique_ptr<RecordedUse> use) noexcept;
  void cut() noexcept;  // the channel ends
  bool is_cut() noexcept;

 private:
  const OwnerProcess process_;
  std::mutex mutex_;  // taken before the channel's
  StreamChannel* channel_;
};

// Thread-safe but for the destructor.
class StreamRecords {
 public:
  StreamRecords() = default;
  // The memory was released: from here on it belongs to the streams.
  ~StreamRecords();
  StreamRecords(const StreamRecords&) = delete;
  StreamRecords& operator=(const StreamRecords&) = delete;

  // A stream that is known already adds nothing. Throws InvalidArgument: the stream is not of the allocator's runtime;
  // InvalidAllocation.
  void add(const FlexStream& stream, const std::shared_ptr<FlexAllocator>& allocator, AllocationIndex index);

 private:
  struct Record {
    std::shared_ptr<ChannelLink> stream;
    std::unique_ptr<RecordedUse> use;
  };
  std::mutex mutex_;
  std::vector<Record> records_;
};

}  // namespace svp
