// SPDX-License-Identifier: Apache-2.0
// Linked into tests that say they are SEQUENTIAL, and are therefore not run under TSan: none of them may start a
// thread.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  constexpr std::string_view text = "this test starts a thread: remove SEQUENTIAL from its entry in CMakeLists.txt\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}
