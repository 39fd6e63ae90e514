// SPDX-License-Identifier: Apache-2.0
#include "host_driver/api/c_names.hpp"

#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace spyre::inline v0 {
namespace {

struct Name {
  std::string_view cpp;
  std::string_view c;
};

// A longer name stands before the one that it ends with or begins with.
constexpr std::array kNames{
    Name{"ops::copy() with Options::out", "the operation copy of spyre_run_operation() with out"},
    Name{"copy() with Options::out", "the operation copy of spyre_run_operation() with out"},
    Name{"Context::contiguous()", "the operation copy of spyre_run_operation()"},
    Name{"Context::restickify()", "the operation copy of spyre_run_operation()"},
    Name{"Context::copy()", "the operation copy of spyre_run_operation()"},
    Name{"Context::empty()", "spyre_tensor_create()"},
    Name{"ops::copy()", "the operation copy of spyre_run_operation()"},
    Name{"copy()", "the operation copy of spyre_run_operation()"},
    Name{"to_device()", "spyre_copy_to_device()"},
    Name{"Context::engine()", "spyre_program_load()"},
    Name{"Context::load()", "spyre_program_load()"},
    Name{"ExecutionPlan::load()", "spyre_program_load()"},
    Name{"Context::recover()", "spyre_context_recover()"},
    Name{"recover()", "spyre_context_recover()"},
    Name{"StreamCapture::Instantiate()", "spyre_capture_instantiate()"},
    Name{"SpyreStream::Record()", "spyre_event_record()"},
    Name{"Event::share()", "spyre_event_share()"},
    Name{"BeginCapture()", "spyre_stream_begin_capture()"},
    Name{"EndCapture()", "spyre_stream_end_capture()"},
    Name{"LaunchHost()", "spyre_launch_host()"},
    Name{"Prepare()", "spyre_prepare()"},
    Name{"Query()", "spyre_query()"},
    Name{"Reset()", "spyre_stream_reset()"},
    Name{"Synchronize()", "spyre_synchronize()"},
    Name{"WaitSlot()", "spyre_capture_wait_slot()"},
    Name{"ops::operations()", "spyre_operation_name()"},
    Name{"Kernel::load", "spyre_kernel_find()"},
    Name{"(MemoryOptions::region_bytes, max_regions)", "(a program in C++ has options for it)"},
};

bool part_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; }

}  // namespace

std::string with_c_names(std::string text) {
  for (const auto& [cpp, c] : kNames) {
    for (std::size_t at = text.find(cpp); at != std::string::npos; at = text.find(cpp, at)) {
      const bool whole = at == 0 || !part_of_a_name(text[at - 1]);
      if (whole) text.replace(at, cpp.size(), c);
      at += whole ? c.size() : cpp.size();
    }
  }
  return text;
}

}  // namespace spyre::inline v0
