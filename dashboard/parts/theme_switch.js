// The theme is chosen before Streamlit starts, by the script at the top of the page (app.py), so a choice loads it anew.
export default function ({ parentElement }) {
  const chosen = localStorage.getItem("misstep-theme") ?? "System"
  for (const button of parentElement.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.value === chosen)
    button.onclick = () => {
      localStorage.setItem("misstep-theme", button.value)
      location.reload()
    }
  }
}
