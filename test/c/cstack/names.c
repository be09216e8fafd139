/* names.c - functions with several names, with none, and with no size. For test_native.c, which
 * builds it into a library. */
#define TEXT(name) ".globl " name "\n.type " name ", @function\n"

/* clang-format off */
__asm__(".text\n.balign 16\n"
        /* One place, many names. */
        TEXT("__aliased") TEXT("aliased") TEXT("aliased_longer")
        ".weak alias\n.type alias, @function\n"
        ".type a, @function\n" /* local */
        "a:\nalias:\n__aliased:\naliased:\naliased_longer:\n"
        "nop\nnop\nnop\nret\n"
        ".size a, . - a\n.size alias, . - a\n.size __aliased, . - a\n"
        ".size aliased, . - a\n.size aliased_longer, . - a\n"
        /* One function inside of another. */
        TEXT("outer") "outer:\nnop\n"
        TEXT("inner") "inner:\nnop\nret\n.size inner, . - inner\n"
        "nop\nret\n.size outer, . - outer\n"
        /* No size: with unwind information, and without. */
        TEXT("unsized") "unsized:\n.cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
        TEXT("nothing_known") "nothing_known:\nnop\nret\n"
        /* No function. */
        ".globl just_a_label\njust_a_label:\nnop\nnop\n"
        ".size just_a_label, 2\n"
        /* Another version of a name. */
        TEXT("versioned_2") "versioned_2:\nnop\nret\n"
        ".size versioned_2, . - versioned_2\n"
        ".symver versioned_2, versioned@@NAMES_2\n"
        /* What is chosen at run time. */
        ".globl chosen\n.type chosen, @gnu_indirect_function\n"
        ".type resolver, @function\n"
        "chosen:\nresolver:\nlea a(%rip), %rax\nret\n"
        ".size chosen, . - chosen\n.size resolver, . - resolver\n");
/* clang-format on */

static __attribute__((noinline)) int hidden(int n)
{
    __asm__ volatile("nop");
    return n + 1;
}

void *names_hidden(void)
{
    return (void *)(unsigned long)hidden;
}
