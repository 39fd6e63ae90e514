// SPDX-License-Identifier: Apache-2.0
// What RuntimeContext, RuntimeStream and FlexAllocator hold: a device, with all that a program has of it. It ends when
// the RuntimeContext goes or the program exits, whichever is first; the object stays until the last of them is gone.
#pragma once

#include <array>
#include <atomic>
#include <flex/flex.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "host_driver/base/process.hpp"
#include "host_driver/compat/flex/2026-08-21/call_gate.hpp"
#include "host_driver/compat/flex/2026-08-21/completions.hpp"
#include "host_driver/compat/flex/2026-08-21/host_writes.hpp"
#include "host_driver/compat/flex/2026-08-21/memory_map.hpp"
#include "host_driver/compat/flex/2026-08-21/open_device.hpp"
#include "host_driver/runtime/stream_error.hpp"

namespace flex::detail {

// Where the public classes are opened.
struct Access {
  static std::vector<Chunk>& chunks(CompositeAddress& address) { return address.chunks_; }
  static std::shared_ptr<Allocation>& owned(CompositeAddress& address) { return address.owned_; }
  static const std::shared_ptr<Allocation>& owned(const CompositeAddress& address) { return address.owned_; }
  static RuntimeStream* new_stream(std::shared_ptr<Context> context, unsigned id) {
    return new RuntimeStream(std::move(context), id);
  }
  // ---- of parameters
  static void set(DmaParams& params, void* host, std::size_t bytes, bool to_device, const CompositeAddress* device,
                  std::shared_ptr<data_conversion_info> conversion) {
    params.host_ = host;
    params.bytes_ = bytes;
    params.to_device_ = to_device;
    params.device_ = device;
    params.conversion_ = std::move(conversion);
  }
  static std::byte* host(const DmaParams& params) { return static_cast<std::byte*>(params.host_); }
  static std::size_t bytes(const DmaParams& params) { return params.bytes_; }
  static bool to_device(const DmaParams& params) { return params.to_device_; }
  static const CompositeAddress* device(const DmaParams& params) { return params.device_; }
  static const data_conversion_info* conversion(const DmaParams& params) { return params.conversion_.get(); }
  static void set(ComputeParams& params, const CompositeAddress* program, std::vector<const CompositeAddress*> tensors,
                  std::string name, std::uint64_t bootstrap_offset) {
    params.program_ = program;
    params.tensors_ = std::move(tensors);
    params.name_ = std::move(name);
    params.bootstrap_offset_ = bootstrap_offset;
  }
  static const CompositeAddress* program(const ComputeParams& params) { return params.program_; }
  static const std::vector<const CompositeAddress*>& tensors(const ComputeParams& params) { return params.tensors_; }
  static const std::string& name(const ComputeParams& params) { return params.name_; }
  static std::uint64_t bootstrap_offset(const ComputeParams& params) { return params.bootstrap_offset_; }
  static void set(HostCallbackParams& params, std::function<void(void*)> callback, void* argument, bool barrier) {
    params.callback_ = std::move(callback);
    params.argument_ = argument;
    params.pipeline_barrier_ = barrier;
  }
  static void call(const HostCallbackParams& params) { params.callback_(params.argument_); }
  static bool has_callback(const HostCallbackParams& params) { return static_cast<bool>(params.callback_); }
  static bool barrier(const HostCallbackParams& params) { return params.pipeline_barrier_; }
};

// What an error names: "tensor 3", or without its number. The text is only made when there is one.
struct Named {
  Named(const char* what) : what(what) {}  // NOLINT(google-explicit-constructor)
  Named(const char* what, std::size_t number) : what(what), number(number) {}
  std::string text() const { return number ? std::string(what) + " " + std::to_string(*number) : what; }

  const char* what;
  std::optional<std::size_t> number{};
};

class Context : public std::enable_shared_from_this<Context> {
 public:
  // Throws svp::Error.
  static std::shared_ptr<Context> open(int device);
  explicit Context(OpenedDevice device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // While one exists the device does.
  class Call {
   public:
    ~Call() { context_.gate_.leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    svp::Runtime& runtime() const { return *context_.device_.runtime; }
    svp::FlexStream& stream(unsigned id) const { return context_.stream(id); }
    // Null: this device has none.
    std::shared_ptr<const svp::Kernel> engine() const {
      return context_.device_.engine ? context_.device_.engine() : nullptr;
    }

   private:
    friend class Context;
    explicit Call(Context& context) : context_(context) {}
    Context& context_;
  };
  // Throws svp::Error: the context has ended, or belongs to another process.
  Call enter();

  const std::string& name() const { return device_.name; }
  bool ended() const { return gate_.closed(); }
  const std::shared_ptr<MemoryMap>& memory() const { return memory_; }
  const std::shared_ptr<Completions>& completions() const { return completions_; }
  HostWrites& host_writes() { return host_writes_; }

  // The memory behind an address. Throws InvalidArgument naming `what`: none, or several pieces.
  Place place_of(const CompositeAddress* address, const Named& what) const;

  RuntimeStream* default_stream();
  RuntimeStream* next_stream(RuntimeStreamPriority priority);
  // What `work` does on the stream. An outcome of one launch that it finds there (an index that led outside) is told
  // once: the stream is reset before, so that it goes on, and what was launched behind that launch is not executed.
  // Throws svp::Error.
  template <typename Work>
  auto on_stream(const Call& call, unsigned id, Work&& work) {
    const std::uint64_t resets = resets_[id].load(std::memory_order_acquire);
    try {
      return std::forward<Work>(work)();
    } catch (const svp::StreamError& error) {
      if (!is_of_one_launch(error)) throw;
      tell_and_go_on(call, id, error);
    } catch (const svp::InvalidArgument&) {
      throw;
    } catch (const svp::Error&) {
      tell_if_reset(id, resets);  // by another thread meanwhile: nothing was done
      throw;
    }
  }

  // Of any stream that was handed out. An outcome of one launch is no failure of its stream.
  bool any_stream_failed();
  bool failed(unsigned stream);

  // Ends what is under way and lets go of the device. Again: does nothing, also while the first one is under way.
  void close() noexcept;
  // After close(), by whichever thread: waits until the device has been let go of, for kCloseEnd at most.
  void wait_until_closed() noexcept;

 private:
  static constexpr unsigned kStreams = 73;  // ids of svp::Runtime::stream()
  svp::FlexStream& stream(unsigned id);
  RuntimeStream* handle(unsigned id);
  static bool is_of_one_launch(const svp::StreamError& error) { return error.failure().of_index; }
  [[noreturn]] void tell_and_go_on(const Call& call, unsigned id, const svp::StreamError& error);
  void tell_if_reset(unsigned id, std::uint64_t resets);
  bool device_failed();
  static bool stream_failed(const svp::FlexStream& stream);

  const svp::OwnerProcess process_;
  OpenedDevice device_;
  CallGate gate_;
  std::promise<void> closed_;
  const std::shared_future<void> closing_ = closed_.get_future().share();
  const std::shared_ptr<MemoryMap> memory_ = std::make_shared<MemoryMap>();
  const std::shared_ptr<Completions> completions_ = std::make_shared<Completions>();
  HostWrites host_writes_;
  std::array<std::atomic<svp::FlexStream*>, kStreams> streams_{};  // null: not opened yet
  // Resets of a stream that failed by one launch, and what was told then.
  std::mutex resetting_;
  std::array<std::atomic<std::uint64_t>, kStreams> resets_{};
  std::array<std::optional<svp::ErrorInfo>, kStreams> told_{};
  std::mutex mutex_;
  std::array<RuntimeStream*, kStreams> handles_{};  // never freed: a program keeps the pointers
  unsigned next_low_ = 0;
  unsigned next_high_ = 0;
};

}  // namespace flex::detail
