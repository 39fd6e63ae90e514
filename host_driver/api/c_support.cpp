// SPDX-License-Identifier: Apache-2.0
#include "host_driver/api/c_support.hpp"

#include <new>

#include "host_driver/api/c_names.hpp"

namespace spyre::inline v0 {
namespace {

// Of this thread's last call that failed.
struct Failure {
  spyre_status status = SPYRE_OK;
  ErrorInfo info{};
  std::string text{};
  const char* fixed = nullptr;  // instead of the texts, which need memory
};
thread_local Failure last_failure;

spyre_status keep(spyre_status status, const ErrorInfo& info, std::string text) noexcept {
  try {
    last_failure = {.status = status, .info = info, .text = std::move(text)};
  } catch (...) {
    last_failure.status = status;
    last_failure.fixed = "the call failed, and there is no memory for the text of the error";
  }
  return status;
}

spyre_status keep(spyre_status status, const Error& error) noexcept {
  try {
    ErrorInfo info = error.info();
    info.message = with_c_names(std::move(info.message));
    info.next_step = with_c_names(std::move(info.next_step));
    return keep(status, info, with_c_names(error.what()));
  } catch (...) {
    return keep(status, ErrorInfo{}, {});
  }
}

spyre_status keep_internal(const char* what) noexcept {
  try {
    return keep(SPYRE_INTERNAL,
                {.layer = Layer::Driver,
                 .source = "libspyre",
                 .outcome = Outcome::Indeterminate,
                 .recoverable = false,
                 .next_step = "report it",
                 .message = what},
                what);
  } catch (...) {
    return keep(SPYRE_INTERNAL, ErrorInfo{}, {});
  }
}

}  // namespace

spyre_status keep_failure() noexcept {
  try {
    throw;
  } catch (const StreamError& error) {
    return keep(SPYRE_STREAM_FAILED, error);
  } catch (const TimeoutError& error) {
    return keep(SPYRE_TIMEOUT, error);
  } catch (const InvalidAllocation& error) {
    return keep(SPYRE_INVALID_ALLOCATION, error);
  } catch (const OutOfMemory& error) {
    return keep(SPYRE_OUT_OF_MEMORY, error);
  } catch (const InvalidArgument& error) {
    return keep(SPYRE_INVALID_ARGUMENT, error);
  } catch (const Error& error) {
    return keep(SPYRE_FAILED, error);
  } catch (const std::bad_alloc&) {
    last_failure.status = SPYRE_OUT_OF_MEMORY;
    last_failure.fixed = "the process is out of memory";
    return SPYRE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return keep_internal(error.what());
  } catch (...) {
    return keep_internal("an exception of an unknown type");
  }
}

void require_size(std::size_t given, std::size_t known, const char* argument) {
  if (given >= known) return;
  throw InvalidArgument(argument, std::string(argument) + ".size is " + std::to_string(given),
                        "set it to sizeof the structure");
}

void require_zero(std::uint64_t value, const char* member) {
  if (value == 0) return;
  throw InvalidArgument(member, std::string(member) + " is " + std::to_string(value), "set it to 0");
}

}  // namespace spyre::inline v0

const char* spyre_status_name(spyre_status status) {
  switch (status) {
    case SPYRE_OK: return "ok";
    case SPYRE_INVALID_ARGUMENT: return "invalid argument";
    case SPYRE_OUT_OF_MEMORY: return "out of memory";
    case SPYRE_STREAM_FAILED: return "stream failed";
    case SPYRE_TIMEOUT: return "timeout";
    case SPYRE_INVALID_ALLOCATION: return "invalid allocation";
    case SPYRE_FAILED: return "failed";
    case SPYRE_INTERNAL: return "internal error";
    default: return "unknown status";
  }
}

const char* spyre_last_error() {
  const auto& failure = spyre::last_failure;
  return failure.fixed != nullptr ? failure.fixed : failure.text.c_str();
}

spyre_status spyre_last_error_details(spyre_error* error) {
  const auto& failure = spyre::last_failure;
  return spyre::guarded([&] {
    spyre::require_size(spyre::require(error, "error").size, sizeof *error, "error");
    error->status = failure.status;
    error->layer = static_cast<std::uint32_t>(failure.info.layer);
    error->outcome = static_cast<std::uint32_t>(failure.info.outcome);
    error->card_status = static_cast<std::uint32_t>(failure.info.status);
    error->recoverable = failure.info.recoverable ? 1 : 0;
    error->message = failure.fixed != nullptr ? failure.fixed : failure.info.message.c_str();
    error->source = failure.fixed != nullptr ? "" : failure.info.source.c_str();
    error->next_step = failure.fixed != nullptr ? "" : failure.info.next_step.c_str();
  });
}
