// A bump allocator over linear memory. Everything is allocated when a model is created and lives as long as the instance,
// so that views held by the host never detach and there is nothing to free.

let top: usize = (__heap_base + 63) & ~(63 as usize);

/** Reserves zeroed memory for `count` 32-bit values, aligned to 64 bytes. */
export function reserve(count: i32): usize {
  const start = top;
  top = (top + ((count as usize) << 2) + 63) & ~(63 as usize);
  const pages = memory.size();
  const needed = ((top + 0xffff) >>> 16) as i32;
  if (needed > pages && memory.grow(needed - pages) < 0) unreachable();
  return start;
}

/** Rounds a count up to whole vectors of four. */
export function padded(count: i32): i32 {
  return (count + 3) & ~3;
}
