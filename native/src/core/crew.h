// Threads that share out something large, and give way to those that others wait for.
#pragma once

#include <cstddef>
#include <functional>

namespace muster {

// Does `body` on so many threads at once, and comes back when all of them have; on the caller's own where no thread is to be had. A crew gets
// what the rest of the process leaves: on few cores the thread of JavaScript, and the collectors of V8 that it waits for, would stand behind it.
void onCrew(size_t threads, const std::function<void()>& body);

}  // namespace muster
