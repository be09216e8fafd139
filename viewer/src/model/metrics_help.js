// What measures are, for people. doc/sampling.md has the details.

export const BINARIES = ['bin_vheap_size', 'bin_old_vheap_size'];

const HELP = {
  samples: 'how often processes were seen',
  allocated: 'memory on heaps, estimated at collections',
  period: 'the time or the events between samples, as the file tells it',
  collecting: 'the time in which processes collected garbage',
  binaries: 'large binaries that processes refer to; one that several refer to counts for each',
  reductions: 'work since the start of the process: about one reduction a function call',
  message_queue_len: 'messages in the mailbox that the process has not received',
  memory: 'all memory of a process: its heaps, stack, dictionary and queued messages',
  total_heap_size: 'the blocks of both heaps and the heap fragments, used or not',
  stack_size: 'the stack, in use',
  heap_size: 'the young heap, in use: data of which much was made lately',
  heap_block_size: 'the block of the young heap with the stack in it, used or not',
  old_heap_size: 'the old heap, in use: data that outlived collections',
  old_heap_block_size: 'the block of the old heap, used or not',
  recent_size: 'data that outlived one collection: the next one moves it to the old heap',
  mbuf_size: 'heap fragments: data beside the heap until the next collection',
  bin_vheap_size: 'large binaries that the young heap refers to',
  bin_vheap_block_size: 'the size of these young binaries at which a collection is due',
  bin_old_vheap_size: 'large binaries that the old heap refers to: a full collection frees them',
  bin_old_vheap_block_size: 'the size of these old binaries at which a full collection is due',
  minor_gcs: 'minor collections since the last full one, which sets it to 0',
};

/** One line, or '' for a metric of another program. */
export function helpOf(name, kind) {
  const help = Object.hasOwn(HELP, name) ? HELP[name] : '';
  if (kind !== 'delta') return help;
  return `the change since the sample before${help === '' ? '' : `: ${help}`}`;
}
