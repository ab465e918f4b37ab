// The theme is chosen before Streamlit starts, by the script at the top of the page (app.py), so a choice loads it anew.
export default function ({ data, parentElement }) {
  const chosen = localStorage.getItem(data.remembered) ?? "System"
  for (const button of parentElement.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.value === chosen)
    button.onclick = () => {
      localStorage.setItem(data.remembered, button.value)
      location.reload()
    }
  }
}
